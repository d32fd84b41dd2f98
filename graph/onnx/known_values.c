/* What conditions and trip counts are, where the file alone says it: what its constants and the sizes that it fixes
 * give, computed by the operators' own kernels (ImportOptions.eval) on tensors of few elements.
 *
 * Known element by element: of a shape [N, 3, 8] the 3 and the 8 are.  An operator that moves elements moves with them
 * whether they are known; elementwise arithmetic knows what it makes of known elements, and of a bool that is not, if
 * it makes the same of either; any other operator needs all.  Whatever is not understood is not known, which is never
 * wrong.  Results are kept by value, so that a counter that a loop carries costs a step for each trip. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/onnx/importer.h"

enum { MAX_KNOWN = 32, MAX_STEPS = 200, MAX_OPEN_BOOLS = 2 };

typedef struct Known {
    const Tensor *t;  /* NULL: nothing is known */
    const Tensor *is; /* which of its elements are: a bool for each; the others are anything */
    bool sized;       /* sizes of inputs have a part in it */
} Known;

static const Known unknown = { .t = NULL };

static const Known *known_of(Importer *im, ValueId v, int steps);

/* ---- shapes ---- */

/* Infers the nodes read so far, those whose inputs have known shapes.  What fails here fails again in the pass that
 * infers all. */
static void infer_so_far(Importer *im)
{
    Graph *g = im->g;

    if (im->problems.n || g->status) /* what was refused may have left nodes that are not whole */
        return;
    for (; im->n_inferred < g->n_node; im->n_inferred++) {
        Node *n = g->node[im->n_inferred];

        if (n->op && node_infer(g, n))
            g->status = ST_OK;
    }
}

/* -1 for sizes that are open; rank -1: nothing is known. */
static Shape shape_so_far(Importer *im, ValueId v)
{
    const Graph *g = im->g;
    const ValueId asked = v;

    infer_so_far(im);
    while (value(g, v)->producer && !shape_known(value(g, v)->shape)) {
        const Node *n = value(g, v)->producer;

        if (!n->op || n->n_in != 1 || !has_value(n->in[0]) || !(n->op->elementwise || n->op->same & SAME_TENSOR))
            return probed_shape(im, asked);
        v = n->in[0];
    }
    return *value(g, v)->shape;
}

static bool may_give_type(const Graph *g, const Node *n, int i)
{
    const DType t = has_in(n, i) ? in_value(g, n, i)->dtype : DT_NONE;

    return (!n->op->moves || op_moves(n->op, i)) && (!t || dtype_is_float(t));
}

/* What computes floats gives them in the type of the first input that may be of floats, where no attribute or input
 * names another. */
static bool type_giver(ValueId *out, DType *named, const Graph *g, const Node *n)
{
    const Attr *to = n->op ? node_attr(n, n->op->same & SAME_TYPED ? "to" : "dtype") : NULL;
    int i = 0;

    *named = to && to->type == A_INT ? (DType)to->i : DT_NONE;
    if (!n->op || *named)
        return false;
    if (n->op->same & SAME_TYPED)
        i = 1;
    else
        while (i + 1 < n->n_in && !may_give_type(g, n, i))
            i++;
    *out = has_in(n, i) ? n->in[i] : NO_VALUE;
    return has_in(n, i);
}

DType known_float(Importer *im, ValueId v)
{
    DType t = DT_NONE;

    infer_so_far(im);
    for (const Value *x = value(im->g, v); !t; x = value(im->g, v)) {
        t = x->dtype;
        if (!t && (!x->producer || !type_giver(&v, &t, im->g, x->producer)))
            break;
    }
    return dtype_is_float(t) ? t : DT_NONE;
}

/* ---- evaluation ---- */

static bool few(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) &&
            (!shape_known(value(g, n->out[i])->shape) || shape_numel(value(g, n->out[i])->shape) > MAX_KNOWN))
            return false;
    return true;
}

/* In `lab`, a graph of this node alone. */
static Tensor *evaluate_in(Graph *lab, Importer *im, const Node *n, int o, const Tensor *const *in)
{
    ValueId *id = ARENA_NEW(lab->arena, ValueId, n->n_in);
    Tensor **out = ARENA_NEW(lab->arena, Tensor *, n->n_out);
    Node *alone;

    if (!id || !out)
        return NULL;
    for (int i = 0; i < n->n_in; i++)
        if (in[i])
            id[i] = n->op->flags & OPF_SHAPE_ONLY ? graph_add_input(lab, "in", in[i]->dtype, &in[i]->shape)
                                                  : graph_add_const_nocopy(lab, "in", in[i]);
    alone = graph_add_node(lab, n->op, NULL, NULL, n->n_in, id, n->n_out, NULL);
    for (int i = 0; alone && i < n->n_attr; i++)
        node_set_attr(lab, alone, &n->attr[i]);
    if (!alone || lab->status || node_infer(lab, alone) || !few(lab, alone) ||
        im->eval(lab->arena, lab, alone, in, out) || !out[o])
        return NULL;
    return tensor_copy(im->scratch, out[o]);
}

/* Output o of the node for these inputs, NULL for absent ones; NULL: it cannot be computed. */
static Tensor *evaluate(Importer *im, const Node *n, int o, const Tensor *const *in)
{
    Graph *lab = graph_create_within("known", arena_budget(im->scratch));
    Tensor *t = lab ? evaluate_in(lab, im, n, o, in) : NULL;

    if (lab)
        graph_free(lab);
    return t;
}

/* ---- elements ---- */

static bool all_known(const Known *k)
{
    for (int64_t i = 0; i < tensor_numel(k->is); i++)
        if (!tensor_int(k->is, i))
            return false;
    return true;
}

static Tensor *filled(Importer *im, const Shape *s, bool with)
{
    Tensor *is = tensor_create(im->scratch, DT_BOOL, s);

    for (int64_t i = 0; is && with && i < tensor_numel(is); i++)
        tensor_set_int(is, i, 1);
    return is;
}

static Known known_whole(Importer *im, const Tensor *t)
{
    Tensor *is = filled(im, &t->shape, true);

    return is ? (Known){ .t = t, .is = is } : unknown;
}

/* What an operator tells of a shape is known where it tells it of two that differ wherever a size is open. */
static Known of_shape(Importer *im, const Node *n, int o)
{
    const Tensor *of[2] = { NULL, NULL };
    Tensor *is;

    for (int k = 0; k < 2; k++) {
        Tensor x = { value(im->g, n->in[0])->dtype, shape_so_far(im, n->in[0]), NULL };
        const Tensor *in[] = { &x };

        if (n->n_in != 1 || x.shape.rank < 0)
            return unknown;
        x.dtype = x.dtype == DT_NONE ? DT_FLOAT32 : x.dtype;
        for (int a = 0; a < x.shape.rank; a++)
            x.shape.dim[a] = x.shape.dim[a] < 0 ? k + 1 : x.shape.dim[a];
        of[k] = evaluate(im, n, o, in);
    }
    if (!of[0] || !of[1] || !shape_eq(&of[0]->shape, &of[1]->shape) || !(is = filled(im, &of[0]->shape, false)))
        return unknown;
    for (int64_t i = 0; i < tensor_numel(is); i++)
        tensor_set_int(is, i, tensor_int(of[0], i) == tensor_int(of[1], i));
    return (Known){ .t = of[0], .is = is, .sized = true };
}

/* Is element i of the result made of known elements of this input?  One that is neither of the result's shape nor one
 * number must be known whole. */
static bool known_at(const Known *k, const Shape *result, int64_t i)
{
    bool one = tensor_numel(k->is) == 1;

    return one || shape_eq(&k->is->shape, result) ? tensor_int(k->is, one ? 0 : i) : all_known(k);
}

/* Whether they are known goes where the elements go. */
static Tensor *moved(Importer *im, const Node *n, int o, const Known *const *in)
{
    const Tensor **list = ARENA_NEW(im->scratch, const Tensor *, n->n_in);
    Tensor *is;

    for (int i = 0; list && i < n->n_in; i++) {
        list[i] = !in[i] ? NULL : op_moves(n->op, i) ? in[i]->is : in[i]->t;
        if (in[i] && !op_moves(n->op, i) && !n->op->elementwise && !all_known(in[i]))
            return NULL;
    }
    if (!list || !(is = evaluate(im, n, o, list)))
        return NULL;
    for (int i = 0; i < n->n_in && n->op->elementwise; i++) /* Where: what chooses must be known there */
        for (int64_t e = 0; in[i] && !op_moves(n->op, i) && e < tensor_numel(is); e++)
            tensor_set_int(is, e, tensor_int(is, e) && known_at(in[i], &is->shape, e));
    return is;
}

/* With the elements that are not known as this. */
static const Tensor *decided_as(Importer *im, const Known *k, int64_t as)
{
    Tensor *t = tensor_copy(im->scratch, k->t);

    for (int64_t i = 0; t && i < tensor_numel(t); i++)
        if (!tensor_int(k->is, i))
            tensor_set_int(t, i, as);
    return t;
}

/* Of elementwise arithmetic; bools that are not known are tried both ways. */
static Tensor *known_values_computed(Importer *im, const Node *n, int o, const Known *const *in, const Tensor *result)
{
    const Tensor **list = ARENA_NEW(im->scratch, const Tensor *, n->n_in);
    Tensor *is = filled(im, &result->shape, true);
    int open[MAX_OPEN_BOOLS], n_open = 0;

    if (!list || !is)
        return NULL;
    for (int i = 0; i < n->n_in; i++) {
        bool tried = in[i] && in[i]->t->dtype == DT_BOOL && !all_known(in[i]) && n_open < MAX_OPEN_BOOLS;

        list[i] = in[i] ? in[i]->t : NULL;
        if (tried)
            open[n_open++] = i;
        for (int64_t e = 0; in[i] && !tried && e < tensor_numel(is); e++)
            tensor_set_int(is, e, tensor_int(is, e) && known_at(in[i], &is->shape, e));
    }
    for (int way = 0; n_open && way < 1 << n_open; way++) {
        const Tensor *other;

        for (int k = 0; k < n_open; k++)
            if (!(list[open[k]] = decided_as(im, in[open[k]], way >> k & 1)))
                return NULL;
        if (!(other = evaluate(im, n, o, list)))
            return NULL;
        for (int64_t e = 0; e < tensor_numel(is); e++)
            tensor_set_int(is, e, tensor_int(is, e) && tensor_float(other, e) == tensor_float(result, e));
    }
    return is;
}

static Known of_inputs(Importer *im, const Node *n, int o, const Known *const *in)
{
    const Tensor **list = ARENA_NEW(im->scratch, const Tensor *, n->n_in);
    const bool moves = n->op->moves || (n->op->same && !n->op->elementwise);
    bool whole = true;
    Known k = unknown;

    for (int i = 0; list && i < n->n_in; i++) {
        list[i] = in[i] ? in[i]->t : NULL;
        whole &= !in[i] || all_known(in[i]);
        k.sized |= in[i] && in[i]->sized;
    }
    if (!list || (!whole && !moves && !n->op->elementwise) || !(k.t = evaluate(im, n, o, list)))
        return unknown;
    k.is = whole   ? filled(im, &k.t->shape, true)
           : moves ? moved(im, n, o, in)
                   : known_values_computed(im, n, o, in, k.t);
    return k.is ? k : unknown;
}

static Known of_node(Importer *im, const Node *n, int o, int steps)
{
    const Known **in;

    if (!im->eval || !n->op || !n->n_in || !has_value(n->in[0]) || op_is_unlike(n->op))
        return unknown;
    if (n->op->flags & OPF_SHAPE_ONLY)
        return of_shape(im, n, o);
    if (!(in = ARENA_NEW(im->scratch, const Known *, n->n_in)))
        return unknown;
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && (!(in[i] = known_of(im, n->in[i], steps)) || !in[i]->t))
            return unknown;
    return of_inputs(im, n, o, in);
}

/* ---- by value ---- */

static bool known_values_make_room(Importer *im)
{
    const Known **known = by_value(im, (void *)im->known, sizeof *known, &im->n_known);

    if (known)
        im->known = known;
    return known;
}

/* NULL: too long a chain, or out of memory; else kept. */
static const Known *known_of(Importer *im, ValueId v, int steps)
{
    const Value *x = value(im->g, v);
    const Known *kept;
    Known k = unknown;

    if (!steps || !known_values_make_room(im))
        return NULL;
    if (im->known[v.i])
        return im->known[v.i];
    if (value_const(im->g, v))
        k = tensor_numel(x->init) <= MAX_KNOWN ? known_whole(im, x->init) : unknown;
    else if (x->producer)
        k = of_node(im, x->producer, x->out_index, steps - 1);
    if (!k.t)
        return im->known[v.i] = &unknown;
    if (!(kept = arena_memdup(im->scratch, &k, sizeof k)))
        return NULL;
    return im->known[v.i] = kept;
}

bool known_number(int64_t *out, Importer *im, ValueId v)
{
    const Known *k = has_value(v) ? known_of(im, v, MAX_STEPS) : NULL;

    if (!k || !k->t || tensor_numel(k->t) != 1 || !tensor_int(k->is, 0) || dtype_is_float(k->t->dtype))
        return false;
    *out = tensor_int(k->t, 0);
    return true;
}

bool known_by_size(const Importer *im, ValueId v)
{
    return v.i < im->n_known && im->known[v.i] && im->known[v.i]->sized;
}

static bool of_sizes_alone(const Graph *g, ValueId v, int *steps)
{
    const Value *x = value(g, v);
    const Node *n = x->producer;
    bool alone = value_const(g, v) != NULL || (n && n->op && --*steps > 0);

    for (int i = 0; n && n->op && alone && !(n->op->flags & OPF_SHAPE_ONLY) && i < n->n_in; i++)
        alone = !has_value(n->in[i]) || of_sizes_alone(g, n->in[i], steps);
    return alone;
}

bool known_by_open_sizes(const Importer *im, ValueId v)
{
    int steps = MAX_STEPS;

    return of_sizes_alone(im->g, v, &steps);
}

void known_forget(Importer *im)
{
    Shape open = shape_unknown();

    for (uint32_t i = 1; i < im->g->n_value && im->n_inferred; i++)
        if (im->g->value[i]->kind == V_TEMP) {
            im->g->value[i]->dtype = DT_NONE;
            value_set_shape(im->g, im->g->value[i], &open);
        }
}

/* Of values that other open sizes keep from being inferred: what trips made, stacked.  -1: not known. */
static int64_t size_along(Importer *im, ValueId v, int64_t axis, int steps)
{
    const Node *n = value(im->g, v)->producer;
    Shape s = shape_so_far(im, v);
    int64_t sum = 0, part, at;

    if (s.rank >= 0)
        return axis < s.rank ? s.dim[axis] : -1;
    if (!steps || !n || !n->op || !has_in(n, 0))
        return -1;
    if (n->op == &op_Unsqueeze) {
        if (!known_number(&at, im, n->in[1]) || at < 0)
            return -1;
        return at == axis ? 1 : size_along(im, n->in[0], axis - (at < axis), steps - 1);
    }
    if (n->op != &op_Concat || node_int(n, "axis") != axis)
        return -1;
    for (int i = 0; i < n->n_in && sum >= 0; i++) {
        part = size_along(im, n->in[i], axis, i ? 1 : steps - 1);
        sum = part < 0 || sum > INT32_MAX ? -1 : sum + part;
    }
    return sum;
}

Status known_size(int64_t *out, Importer *im, ValueId v, int64_t axis)
{
    Shape s = shape_so_far(im, v);

    *out = s.rank < 0 && axis >= 0 ? size_along(im, v, axis, MAX_STEPS) : -1;
    if (s.rank < 0)
        return ST_OK;
    if (axis < -s.rank || axis >= s.rank)
        return FAIL(E_MODEL, "axis %lld of %d dimensions", (long long)axis, s.rank);
    *out = s.dim[axis < 0 ? axis + s.rank : axis];
    return ST_OK;
}
