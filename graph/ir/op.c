/* Look-up, normalisation and inference for all operators. */
#include "graph/ir/op.h"

#include <stdio.h>
#include <string.h>

static int compare_domain(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : ""); }

const OpDef *op_find(const char *domain, const char *name)
{
    int from = 0, to = op_list_len; /* the first operator not before `name` has an index in [from, to] */

    if (domain && (!*domain || !strcmp(domain, "ai.onnx")))
        domain = NULL;
    while (from < to) {
        const int middle = from + (to - from) / 2;

        if (strcmp(op_list[middle]->name, name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from < op_list_len && !strcmp(op_list[from]->name, name) && !compare_domain(op_list[from]->domain, domain)
               ? op_list[from]
               : NULL;
}

const OpDef *operator_find(const OperatorList *list, const char *domain, const char *name)
{
    for (int i = 0; list && i < list->n; i++)
        if (!strcmp(list->op[i]->name, name) && !compare_domain(list->op[i]->domain, domain))
            return list->op[i];
    return NULL;
}

/* ---- normalisation ---- */

const AttrDecl *op_attr_decl(const OpDef *op, const char *name)
{
    for (const AttrDecl *d = op->attrs; d && d->name; d++)
        if (!strcmp(d->name, name))
            return d;
    return NULL;
}

static bool is_list(AttrType t) { return t == A_INTS || t == A_FLOATS || t == A_STRINGS; }

/* Checks all attributes; an empty list, whose type a file does not show, gets the declared type. */
static Status check_attrs(Graph *g, Node *n)
{
    for (int i = 0; i < n->n_attr; i++) {
        const AttrDecl *d = op_attr_decl(n->op, n->attr[i].name);
        const Attr *a = &n->attr[i];

        if (!d)
            return FAIL(E_MODEL, "%s: unknown attribute '%s'", node_text(g, n), a->name);
        if (d->type != a->type && is_list(d->type) && is_list(a->type) && a->n == 0)
            node_set_attr(g, n, &(Attr){ .name = d->name, .type = d->type });
        TRY(g->status);
        a = &n->attr[i];
        if (d->type != a->type)
            return FAIL(E_MODEL, "%s: attribute '%s' has the wrong type", node_text(g, n), d->name);
        if (a->type == A_GRAPH && !a->graph && d->rule == ATTR_REQUIRED)
            return FAIL(E_MODEL, "%s: attribute '%s' is required", node_text(g, n), d->name);
        TRY(attr_check(g, n, d, a));
    }
    return ST_OK;
}

Status node_normalise(Graph *g, Node *n)
{
    const OpDef *op = n->op;

    while (n->n_in > op->in_min && !has_value(n->in[n->n_in - 1]))
        n->n_in--;
    while (!(op->flags & OPF_COLLECTIVE) && n->n_out > op->out_min && !has_value(n->out[n->n_out - 1]))
        n->n_out--;
    if (n->n_in < op->in_min || (op->in_max >= 0 && n->n_in > op->in_max))
        return FAIL(E_MODEL, "%s: %d inputs, expected %d to %d", node_text(g, n), n->n_in, op->in_min, op->in_max);
    if (n->n_out < op->out_min || (op->out_max >= 0 && n->n_out > op->out_max))
        return FAIL(E_MODEL, "%s: %d outputs, expected %d to %d", node_text(g, n), n->n_out, op->out_min, op->out_max);
    for (int i = 0; i < (op->in_max < 0 && !(op->flags & OPF_OPTIONAL_INPUTS) ? n->n_in : op->in_min); i++)
        if (!has_value(n->in[i]))
            return FAIL(E_MODEL, "%s: required input %d is absent", node_text(g, n), i);
    for (int i = 0; i < op->out_min; i++)
        if (!has_value(n->out[i]) && op_requires_output(op, i))
            return FAIL(E_MODEL, "%s: required output %d is absent", node_text(g, n), i);
    TRY(check_attrs(g, n));
    for (const AttrDecl *d = op->attrs; d && d->name; d++)
        if (d->rule == ATTR_REQUIRED && !node_attr(n, d->name))
            return FAIL(E_MODEL, "%s: attribute '%s' is required", node_text(g, n), d->name);
    node_set_defaults(g, n);
    return g->status;
}

/* ---- inference ---- */

bool node_inputs_known(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && (!shape_known(in_value(g, n, i)->shape) || in_value(g, n, i)->dtype == DT_NONE))
            return false;
    return true;
}

static bool is_text(const Graph *g, ValueId v) { return has_value(v) && value(g, v)->dtype == DT_STRING; }

/* E_SHAPE if an ONNX operator reads strings at a later input though neither input 0 nor output 0 has strings. */
static Status check_text(const Graph *g, const Node *n)
{
    if (n->op->domain || is_text(g, n->in[0]) || is_text(g, n->out[0]))
        return ST_OK;
    for (int i = 1; i < n->n_in; i++)
        if (is_text(g, n->in[i]))
            return FAIL(E_SHAPE, "%s: input %d is string, expected numbers", node_text(g, n), i);
    return ST_OK;
}

/* Infers a reshape to a constant shape without -1 and 0: it needs the type of input 0, but not its shape. */
static Status infer_given_shape(Graph *g, Node *n)
{
    Shape y = { 0 };

    if (!op_reshapes(n->op) || !in_const(g, n, 1) || !has_in(n, 0) || in_value(g, n, 0)->dtype == DT_NONE)
        return g->status;
    TRY(value_const_ints(g, n->in[1], y.dim, MAX_RANK, &y.rank));
    for (int i = 0; i < y.rank; i++)
        if (y.dim[i] <= 0)
            return g->status;
    TRY(shape_check(&y, dtype_size(in_value(g, n, 0)->dtype)));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return g->status;
}

Status node_infer(Graph *g, Node *n)
{
    const Value *x = n->n_in ? in_value(g, n, 0) : NULL;
    Status st;

    if (!node_inputs_known(g, n))
        return infer_given_shape(g, n);
    if (has_in(n, 0) && n->op->dtypes && !(n->op->dtypes & DTYPE_BIT(x->dtype)))
        return FAIL(E_SHAPE, "%s: type %s of '%s' is not supported", node_text(g, n), dtype_name(x->dtype), x->name);
    if ((st = n->op->infer(g, n))) /* where memory has run out shapes may be missing, which the operator reports */
        return g->status == E_NOMEM ? FAIL_NOMEM() : st;
    if (n->n_in > 1 && n->n_out)
        TRY(check_text(g, n));
    for (int i = 0; i < n->n_out && !g->status; i++) {
        const Value *y = value(g, n->out[i]);

        if (has_value(n->out[i]) && shape_known(y->shape) && (st = shape_check(y->shape, dtype_size(y->dtype))))
            return status_prefix(st, "%s", node_text(g, n));
    }
    return g->status;
}

Status train_alone(Graph *g, Node *n, const TrainMode *mode)
{
    if (!mode->batch)
        graph_replace(g, n->out[0], n->in[0]);
    return g->status;
}

void set_out(Graph *g, Node *n, int i, DType dtype, const Shape *shape)
{
    Value *v;

    if (!has_out(n, i))
        return;
    v = value(g, n->out[i]);
    v->dtype = dtype;
    value_set_shape(g, v, shape);
}

Status infer_like(Graph *g, Node *n, int i)
{
    const Value *x = in_value(g, n, i);

    set_out(g, n, 0, x->dtype, x->shape);
    return ST_OK;
}

Status infer_wide_dtype(const Graph *g, const Node *n, int from, int to)
{
    DType t = in_value(g, n, 0)->dtype, want = DT_NONE;

    for (int i = from; i < to; i++) {
        DType found = has_in(n, i) ? in_value(g, n, i)->dtype : DT_NONE;

        if (found == DT_NONE)
            continue;
        if (want == DT_NONE)
            want = dtype_size(t) == 2 && found == DT_FLOAT32 ? DT_FLOAT32 : t;
        if (found != want)
            return FAIL(E_SHAPE, "%s: input %d is %s, expected %s", node_text(g, n), i, dtype_name(found),
                        dtype_name(want));
    }
    return ST_OK;
}

Status infer_same_dtype(const Graph *g, const Node *n, int from, int to)
{
    DType t = DT_NONE;

    for (int i = from; i < to && i < n->n_in; i++) {
        if (!has_value(n->in[i]))
            continue;
        if (t != DT_NONE && in_value(g, n, i)->dtype != t)
            return FAIL(E_SHAPE, "%s: input %d is %s, expected %s", node_text(g, n), i,
                        dtype_name(in_value(g, n, i)->dtype), dtype_name(t));
        t = in_value(g, n, i)->dtype;
    }
    return ST_OK;
}

Status infer_broadcast(Graph *g, Node *n, DType out)
{
    Shape s = *in_value(g, n, 0)->shape;

    if (out == DT_NONE)
        TRY(infer_same_dtype(g, n, 0, n->n_in));
    for (int i = 1; i < n->n_in; i++)
        TRY(shape_broadcast(&s, &s, in_value(g, n, i)->shape, node_text(g, n)));
    set_out(g, n, 0, out == DT_NONE ? in_value(g, n, 0)->dtype : out, &s);
    return ST_OK;
}

Status infer_expect(const Graph *g, const Node *n, int i, const char *what, Shape shape)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (has_in(n, i) && !shape_eq(in_value(g, n, i)->shape, &shape))
        return FAIL(E_SHAPE, "%s: %s is %s, expected %s", node_text(g, n), what,
                    shape_text(in_value(g, n, i)->shape, a), shape_text(&shape, b));
    return ST_OK;
}

Status infer_axis(Graph *g, Node *n, int rank)
{
    int axis;

    TRY(shape_axis(&axis, node_int(n, "axis"), rank, node_text(g, n)));
    node_set_int(g, n, "axis", axis);
    return g->status;
}

int64_t index_range_at(const Graph *g, const Node *n, int i, int k)
{
    if (n->op->tuple_range)
        return n->op->tuple_range(g, n, i, k);
    return n->op->index_range && !k ? n->op->index_range(g, n, i) : -1;
}

int64_t index_range_axis(const Graph *g, const Node *n, int i)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int64_t axis = node_int(n, "axis");

    return i == 1 && axis >= 0 && axis < x->rank ? x->dim[axis] : -1;
}

bool attr_is_default(const AttrDecl *d, const Attr *a)
{
    switch (a->type) {
    case A_INT: return a->i == d->i;
    case A_FLOAT: return a->f == d->f;
    case A_STRING: return !a->s || (d->s && !strcmp(a->s, d->s));
    case A_INTS:
    case A_FLOATS:
    case A_STRINGS: return a->n == 0;
    case A_GRAPH: return !a->graph;
    default: return !a->tensor;
    }
}
