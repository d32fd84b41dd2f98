/* dpx_node: what a function of an embedder's operator sees of its node. */
#include "exec/operators/operators.h"

#include <stdio.h>
#include <string.h>

#include "graph/ir/op.h"

/* ---- where things stand ---- */

Slots node_slots(const Node *n)
{
    const RoleDef *r = node_role(n);
    Slots s = { .n_in = n->n_in, .n_out = n->n_out, .out = -1, .dout = -1, .answer = -1, .gradient_answer = -1 };

    if (role_combines(r->role))
        s.n_in = s.n_out = 0;
    else if (r->role == ROLE_COLLECT)
        s.n_out = 0;
    else if (r->role == ROLE_SHARED)
        s.answer = --s.n_in;
    if (!role_is_gradient(r->role))
        return s;
    s.n_in = (int)node_int(n, ATTR_INPUTS);
    s.n_out = (int)node_int(n, ATTR_OUTPUTS);
    s.out = s.n_in;
    s.dout = s.n_in + s.n_out;
    s.answer = r->of->shares ? s.dout + s.n_out : -1;
    s.gradient_answer = r->of->gradient_shares && r->role == ROLE_GRADIENT ? s.answer + 1 : -1;
    return s;
}

void node_tensor(dpx_tensor *out, const Graph *g, ValueId v)
{
    const Value *x = has_value(v) ? value(g, v) : NULL;

    *out = (dpx_tensor){ .rank = -1 };
    if (!x || !shape_known(x->shape))
        return;
    out->name = x->name;
    out->dtype = (dpx_dtype)x->dtype;
    out->rank = x->shape->rank;
    memcpy(out->dim, x->shape->dim, (size_t)x->shape->rank * sizeof *out->dim);
    out->data = value_const(g, v) ? value_const(g, v)->data : NULL;
}

Attr *node_attrs_with(Graph *g, const Node *n, const Attr *more)
{
    int count = 0, k = 0;
    Attr *list;

    while (more[count].name)
        count++;
    if (!(list = ARENA_NEW(g->arena, Attr, n->n_attr + count + 1)))
        return NULL;
    for (int i = 0; i < n->n_attr; i++)
        if (strncmp(n->attr[i].name, ATTR_OF_ROLES, strlen(ATTR_OF_ROLES)) != 0)
            list[k++] = n->attr[i];
    for (int i = 0; i < count; i++)
        list[k++] = more[i];
    return list;
}

/* ---- calls ---- */

Status node_call(dpx_node *node, dpx_node_fn *fn, const char *what)
{
    const dpx_operator *d = &node->role->of->def;
    dpx_status st;

    node->why[0] = '\0';
    st = fn(d->user, node);
    if (!st)
        return ST_OK;
    if (st > 0 || st < DPX_INTERRUPTED)
        return FAIL(E_INTERNAL, "the %s of operator %s of domain %s returned %d, which is no dpx_status", what, d->name,
                    d->domain, (int)st);
    return FAIL((Status)st, "the %s of operator %s of domain %s: %s", what, d->name, d->domain,
                *node->why ? node->why : status_name((Status)st));
}

static Status check_sizes(const Node *n, const SharedSizes *s)
{
    const Operator *o = node_role(n)->of;

    if ((o->shares && !s->forward.message) || (o->gradient_shares && !s->gradient.message))
        return FAIL(E_INVALID, "the shape function of operator %s of domain %s sets no %smessage", o->def.name,
                    o->def.domain, o->shares && !s->forward.message ? "" : "gradient ");
    return ST_OK;
}

/* Checks that the next value of a state has its type and shape. */
static Status check_states(const Graph *g, const Node *n)
{
    const RoleDef *r = node_role(n);
    int out = r->of->def.state_outputs;

    for (int i = 0; i < 8; i++) {
        const Value *x, *next;
        char a[SHAPE_TEXT], b[SHAPE_TEXT];

        if (!(r->of->def.state_inputs >> i & 1) || !has_out(n, out++) || !has_in(n, i))
            continue;
        x = in_value(g, n, i);
        next = value(g, n->out[out - 1]);
        if (x->dtype != next->dtype || !shape_eq(x->shape, next->shape))
            return FAIL(E_SHAPE,
                        "the shape function of operator %s of domain %s: output %d is %s%s, the state at "
                        "input %d %s%s",
                        r->of->def.name, n->op->domain, out - 1, dtype_name(next->dtype), shape_text(next->shape, a), i,
                        dtype_name(x->dtype), shape_text(x->shape, b));
    }
    return ST_OK;
}

static Status call_shape(SharedSizes *sizes, Graph *g, Node *n, dpx_tensor *in, bool *set)
{
    dpx_node node = {
        .g = g, .n = n, .role = node_role(n), .infers = g, .set = set, .at = node_slots(n), .in = in, .n_in = n->n_in
    };

    for (int i = 0; i < n->n_in; i++)
        node_tensor(&in[i], g, n->in[i]);
    TRY(node_call(&node, node.role->of->def.shape, "shape function"));
    TRY(g->status);
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) && !set[i])
            return FAIL(E_SHAPE, "the shape function of operator %s of domain %s sets no output %d",
                        node.role->of->def.name, n->op->domain, i);
    TRY(check_states(g, n));
    if (sizes)
        *sizes = node.sizes;
    return check_sizes(n, &node.sizes);
}

Status node_shape(SharedSizes *sizes, Graph *g, Node *n)
{
    Arena *a = arena_create_beside(g->arena);
    dpx_tensor *in = a ? ARENA_NEW(a, dpx_tensor, n->n_in) : NULL;
    bool *set = a ? ARENA_NEW(a, bool, n->n_out) : NULL;
    Status st = in && set ? call_shape(sizes, g, n, in, set) : FAIL_NOMEM();

    if (a)
        arena_free(a);
    return status_prefix(st, "%s", node_text(g, n));
}

dpx_status dpx_node_fail(dpx_node *node, dpx_status status, const char *why)
{
    if (node && why)
        snprintf(node->why, sizeof node->why, "%s", why);
    return status;
}

/* ---- tensors ---- */

const char *dpx_node_name(const dpx_node *node) { return node ? node->n->name : NULL; }
int dpx_node_count_inputs(const dpx_node *node) { return node ? node->at.n_in : 0; }
int dpx_node_count_outputs(const dpx_node *node) { return node ? node->at.n_out : 0; }

/* Number `i` of `n` that stand in list[from], of which `len` are there at all. */
static int node_give(dpx_tensor *out, const dpx_tensor *list, int len, int from, int i, int n)
{
    if (!out || i < 0 || i >= n || from < 0 || from + i >= len || list[from + i].rank < 0)
        return 0;
    *out = list[from + i];
    return 1;
}

int dpx_node_input(const dpx_node *node, int i, dpx_tensor *out)
{
    return node ? node_give(out, node->in, node->n_in, 0, i, node->at.n_in) : 0;
}

int dpx_node_output(const dpx_node *node, int i, dpx_tensor *out)
{
    if (!node || node->infers)
        return 0;
    return node->at.dout < 0 ? node_give(out, node->out, node->n_out, 0, i, node->at.n_out)
                             : node_give(out, node->in, node->n_in, node->at.out, i, node->at.n_out);
}

int dpx_node_output_gradient(const dpx_node *node, int i, dpx_tensor *out)
{
    return node ? node_give(out, node->in, node->n_in, node->at.dout, i, node->at.n_out) : 0;
}

int dpx_node_input_gradient(const dpx_node *node, int i, dpx_tensor *out)
{
    const bool there = node && (node->role->role == ROLE_GRADIENT || node->builds);

    return there ? node_give(out, node->out, node->n_out, 0, i, node->at.n_in) : 0;
}

/* ---- what copies share ---- */

/* Row i of [rows, numbers]. */
static int give_row(dpx_tensor *out, const dpx_tensor *rows, int64_t i)
{
    if (!out || rows->rank != 2 || i < 0 || i >= rows->dim[0])
        return 0;
    *out = (dpx_tensor){ .name = rows->name, .dtype = rows->dtype, .rank = 1, .dim = { rows->dim[1] } };
    out->data = rows->data ? (double *)rows->data + i * rows->dim[1] : NULL;
    return 1;
}

/* The answer for the node's copy.  If there is only one row, all copies read it: the sender of the message was not
 * copied. */
static int give_answer(dpx_tensor *out, const dpx_node *node, int at)
{
    const dpx_tensor *rows = at < 0 || node->infers ? NULL : &node->in[at];

    return rows ? give_row(out, rows, rows->dim[0] > 1 ? node->n->replica : 0) : 0;
}

int dpx_node_count_messages(const dpx_node *node)
{
    return !node                             ? 0
           : role_combines(node->role->role) ? (int)node->in[0].dim[0]
           : role_collects(node->role->role) ? 1
                                             : 0;
}

int dpx_node_message(const dpx_node *node, int i, dpx_tensor *out)
{
    return !node                             ? 0
           : role_combines(node->role->role) ? give_row(out, &node->in[0], i)
           : role_collects(node->role->role) ? give_row(out, &node->out[0], i)
                                             : 0;
}

int dpx_node_answer(const dpx_node *node, int i, dpx_tensor *out)
{
    return !node                             ? 0
           : role_combines(node->role->role) ? give_row(out, &node->out[0], i)
           : i                               ? 0
                                             : give_answer(out, node, node->at.answer);
}

int dpx_node_gradient_answer(const dpx_node *node, dpx_tensor *out)
{
    return node ? give_answer(out, node, node->at.gradient_answer) : 0;
}

static dpx_status set_sizes(dpx_node *node, Sizes *to, bool shares, int64_t message, int64_t answer)
{
    if (!shares)
        return dpx_node_fail(node, DPX_INVALID, "it sets a message that the operator has no kernels for");
    if (message < 1 || answer < 1 || message > INT32_MAX || answer > INT32_MAX)
        return dpx_node_fail(node, DPX_INVALID,
                             "it sets a message or an answer of less than 1 or more than 2^31 - 1 numbers");
    *to = (Sizes){ message, answer };
    return DPX_OK;
}

dpx_status dpx_node_set_message(dpx_node *node, int64_t message, int64_t answer)
{
    if (!node || !node->infers)
        return (dpx_status)FAIL(E_INVALID, "%s: called outside of a shape function", __func__);
    return set_sizes(node, &node->sizes.forward, node->role->of->shares, message, answer);
}

dpx_status dpx_node_set_gradient_message(dpx_node *node, int64_t message, int64_t answer)
{
    if (!node || !node->infers)
        return (dpx_status)FAIL(E_INVALID, "%s: called outside of a shape function", __func__);
    return set_sizes(node, &node->sizes.gradient, node->role->of->gradient_shares, message, answer);
}

dpx_status dpx_node_set_output(dpx_node *node, int i, dpx_dtype dtype, int rank, const int64_t *dim)
{
    Shape s;

    if (!node || !node->infers)
        return (dpx_status)FAIL(E_INVALID, "%s: called outside of a shape function", __func__);
    if (i < 0 || i >= node->at.n_out)
        return dpx_node_fail(node, DPX_INVALID, "it sets an output that the node does not have");
    if (rank < 0 || rank > MAX_RANK || (rank && !dim) || !dtype_size((DType)dtype) || dtype == DPX_STRING)
        return dpx_node_fail(node, DPX_INVALID, "it sets an output of an unknown type or rank");
    s = shape_of(rank, dim);
    for (int k = 0; k < rank; k++)
        if (dim[k] < 0)
            return dpx_node_fail(node, DPX_SHAPE, "it sets an output with a negative dimension");
    node->set[i] = true;
    set_out(node->infers, (Node *)(uintptr_t)node->n, i, (DType)dtype, &s);
    return (dpx_status)node->infers->status;
}

/* ---- attributes ---- */

/* The operator's own attribute of this name and type; NULL: there is none. */
static const Attr *attribute(const dpx_node *node, const char *name, AttrType type)
{
    const Attr *a = node && name ? node_attr(node->n, name) : NULL;

    return a && (a->type == type || (!a->n && (type == A_INTS || type == A_FLOATS))) ? a : NULL;
}

int64_t dpx_node_int(const dpx_node *node, const char *name)
{
    const Attr *a = attribute(node, name, A_INT);

    return a ? a->i : 0;
}

double dpx_node_float(const dpx_node *node, const char *name)
{
    const Attr *a = attribute(node, name, A_FLOAT);

    return a ? a->f : 0;
}

const char *dpx_node_string(const dpx_node *node, const char *name)
{
    const Attr *a = attribute(node, name, A_STRING);

    return a ? a->s : NULL;
}

const int64_t *dpx_node_ints(const dpx_node *node, const char *name, int *n)
{
    const Attr *a = attribute(node, name, A_INTS);

    if (n)
        *n = a ? a->n : 0;
    return a && a->n ? a->ints : NULL;
}

const double *dpx_node_floats(const dpx_node *node, const char *name, int *n)
{
    const Attr *a = attribute(node, name, A_FLOATS);

    if (n)
        *n = a ? a->n : 0;
    return a && a->n ? a->floats : NULL;
}
