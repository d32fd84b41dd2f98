/* Known values: small tensors that follow from the file's constants and fixed sizes alone.  Conditions, trip counts and
 * lengths of sequences are looked up here.  The operators' own kernels (ImportOptions.eval) compute them.
 *
 * Each element is known or unknown: in a shape [N, 3, 8], 3 and 8 are known.  An operator that moves elements moves the
 * mask of known elements with them.  Elementwise arithmetic has known results for known elements, and for an unknown
 * bool if true and false give the same result.  All other operators need every element.  Calling a value unknown is
 * always right.  Results are kept by value, so that a counter carried through a loop costs one step for each trip. */
#include <string.h>

#include "graph/onnx/importer.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/view.gen.h"

enum { MAX_KNOWN = 32, MAX_STEPS = 200, MAX_OPEN_BOOLS = 2 };

typedef struct Known {
    const Tensor *t;    /* NULL: nothing is known */
    const Tensor *mask; /* a bool for each element: is it known?  Other elements of t are arbitrary */
    bool sized;         /* it depends on sizes of inputs */
} Known;

static const Known unknown = { .t = NULL };

static const Known *known_of(Importer *im, ValueId v, int steps);

/* ---- shapes ---- */

/* Infers the shapes of nodes read so far, as far as their inputs have shapes.  Errors are dropped: the pass that infers
 * all shapes reports them. */
static void infer_so_far(Importer *im)
{
    Graph *g = im->g;

    if (im->problems.n || g->status) /* an unsupported node may have been left incomplete */
        return;
    for (; im->n_inferred < g->n_node; im->n_inferred++) {
        Node *n = g->node[im->n_inferred];

        if (n->op && node_infer(g, n))
            g->status = ST_OK;
    }
}

/* The shape of v: -1 for open sizes; rank -1: nothing is known. */
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

/* Could input i, by its own type and its use, be of floats? */
static bool may_give_type(const Graph *g, const Node *n, int i)
{
    const DType t = has_in(n, i) ? in_value(g, n, i)->dtype : DT_NONE;

    return (!n->op->moves || op_moves(n->op, i)) && (!t || dtype_is_float(t));
}

/* Finds the input whose type the outputs of n, floats, have: the first that may be of floats.  false: an attribute
 * names the type (*named), or there is no such input. */
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

static bool outputs_are_small(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) &&
            (!shape_known(value(g, n->out[i])->shape) || shape_numel(value(g, n->out[i])->shape) > MAX_KNOWN))
            return false;
    return true;
}

/* Returns the inputs of `copy`, those of the node that it copies or, where inference has added or converted some,
 * constants of g.  NULL: no memory. */
static const Tensor **inferred_inputs(Graph *g, const Node *copy, int n_in, const Tensor *const *in)
{
    const Tensor **all = ARENA_NEW(g->arena, const Tensor *, copy->n_in);

    for (int i = 0; all && i < copy->n_in; i++) {
        all[i] = in_const(g, copy, i);
        if (!all[i] && i < n_in)
            all[i] = in[i];
    }
    return all;
}

/* Does the work of `evaluate` in the empty graph g, which gets a copy of n as its only node. */
static Tensor *evaluate_in(Graph *g, Importer *im, const Node *n, int o, const Tensor *const *in)
{
    ValueId *id = ARENA_NEW(g->arena, ValueId, n->n_in);
    Tensor **out = ARENA_NEW(g->arena, Tensor *, n->n_out);
    const Tensor **all;
    Node *copy;

    if (!id || !out)
        return NULL;
    for (int i = 0; i < n->n_in; i++)
        if (in[i])
            id[i] = n->op->flags & OPF_SHAPE_ONLY ? graph_add_input(g, "in", in[i]->dtype, &in[i]->shape)
                                                  : graph_add_const_nocopy(g, "in", in[i]);
    copy = graph_add_node(g, n->op, NULL, NULL, n->n_in, id, n->n_out, NULL);
    for (int i = 0; copy && i < n->n_attr; i++)
        node_set_attr(g, copy, &n->attr[i]);
    if (!copy || g->status || node_infer(g, copy) || !outputs_are_small(g, copy) ||
        !(all = inferred_inputs(g, copy, n->n_in, in)) || im->eval(g->arena, g, copy, all, out) || !out[o])
        return NULL;
    return tensor_copy(im->scratch, out[o]);
}

/* Computes output o of the node for these inputs, NULL for absent ones.  NULL: it cannot be computed. */
static Tensor *evaluate(Importer *im, const Node *n, int o, const Tensor *const *in)
{
    Graph *g = graph_create_within("known", arena_budget(im->scratch));
    Tensor *t = g ? evaluate_in(g, im, n, o, in) : NULL;

    if (g)
        graph_free(g);
    return t;
}

/* ---- elements ---- */

static bool all_known(const Known *k)
{
    for (int64_t i = 0; i < tensor_numel(k->mask); i++)
        if (!tensor_int(k->mask, i))
            return false;
    return true;
}

/* A mask of shape s, all elements known or all unknown; NULL: no memory. */
static Tensor *make_mask(Importer *im, const Shape *s, bool known)
{
    Tensor *mask = tensor_create(im->scratch, DT_BOOL, s);

    for (int64_t i = 0; mask && known && i < tensor_numel(mask); i++)
        tensor_set_int(mask, i, 1);
    return mask;
}

/* Output o of an operator that reads shapes alone.  It is computed for two shapes that differ in every open size;
 * elements that agree are known. */
static Known output_of_shape(Importer *im, const Node *n, int o)
{
    const Tensor *result[2] = { NULL, NULL };
    Tensor *mask;

    for (int k = 0; k < 2; k++) {
        Tensor x = { value(im->g, n->in[0])->dtype, shape_so_far(im, n->in[0]), NULL };
        const Tensor *in[] = { &x };

        if (n->n_in != 1 || x.shape.rank < 0)
            return unknown;
        x.dtype = x.dtype == DT_NONE ? DT_FLOAT32 : x.dtype;
        for (int a = 0; a < x.shape.rank; a++)
            x.shape.dim[a] = x.shape.dim[a] < 0 ? k + 1 : x.shape.dim[a];
        result[k] = evaluate(im, n, o, in);
    }
    if (!result[0] || !result[1] || !shape_eq(&result[0]->shape, &result[1]->shape) ||
        !(mask = make_mask(im, &result[0]->shape, false)))
        return unknown;
    for (int64_t i = 0; i < tensor_numel(mask); i++)
        tensor_set_int(mask, i, tensor_int(result[0], i) == tensor_int(result[1], i));
    return (Known){ .t = result[0], .mask = mask, .sized = true };
}

/* Does element i of the result depend on known elements of this input?  An input that has neither the result's shape
 * nor one element must be known as a whole. */
static bool known_at(const Known *k, const Shape *result, int64_t i)
{
    bool one = tensor_numel(k->mask) == 1;

    return one || shape_eq(&k->mask->shape, result) ? tensor_int(k->mask, one ? 0 : i) : all_known(k);
}

/* The mask of an operator that moves elements: it moves the masks of its inputs likewise. */
static Tensor *moved_mask(Importer *im, const Node *n, int o, const Known *const *in)
{
    const Tensor **list = ARENA_NEW(im->scratch, const Tensor *, n->n_in);
    Tensor *mask;

    for (int i = 0; list && i < n->n_in; i++) {
        list[i] = !in[i] ? NULL : op_moves(n->op, i) ? in[i]->mask : in[i]->t;
        if (in[i] && !op_moves(n->op, i) && !n->op->elementwise && !all_known(in[i]))
            return NULL;
    }
    if (!list || !(mask = evaluate(im, n, o, list)))
        return NULL;
    for (int i = 0; i < n->n_in && n->op->elementwise; i++) /* Where: the condition must be known there */
        for (int64_t e = 0; in[i] && !op_moves(n->op, i) && e < tensor_numel(mask); e++)
            tensor_set_int(mask, e, tensor_int(mask, e) && known_at(in[i], &mask->shape, e));
    return mask;
}

/* A copy of the tensor whose unknown elements are `fill`; NULL: no memory. */
static const Tensor *fill_unknown(Importer *im, const Known *k, int64_t fill)
{
    Tensor *t = tensor_copy(im->scratch, k->t);

    for (int64_t i = 0; t && i < tensor_numel(t); i++)
        if (!tensor_int(k->mask, i))
            tensor_set_int(t, i, fill);
    return t;
}

/* The mask of elementwise arithmetic with this result.  Up to MAX_OPEN_BOOLS inputs with unknown bools are tried both
 * ways: Or(unknown, true) is known. */
static Tensor *computed_mask(Importer *im, const Node *n, int o, const Known *const *in, const Tensor *result)
{
    const Tensor **list = ARENA_NEW(im->scratch, const Tensor *, n->n_in);
    Tensor *mask = make_mask(im, &result->shape, true);
    int open[MAX_OPEN_BOOLS], n_open = 0;

    if (!list || !mask)
        return NULL;
    for (int i = 0; i < n->n_in; i++) {
        bool tried = in[i] && in[i]->t->dtype == DT_BOOL && !all_known(in[i]) && n_open < MAX_OPEN_BOOLS;

        list[i] = in[i] ? in[i]->t : NULL;
        if (tried)
            open[n_open++] = i;
        for (int64_t e = 0; in[i] && !tried && e < tensor_numel(mask); e++)
            tensor_set_int(mask, e, tensor_int(mask, e) && known_at(in[i], &mask->shape, e));
    }
    for (int guess = 0; n_open && guess < 1 << n_open; guess++) {
        const Tensor *other;

        for (int k = 0; k < n_open; k++)
            if (!(list[open[k]] = fill_unknown(im, in[open[k]], guess >> k & 1)))
                return NULL;
        if (!(other = evaluate(im, n, o, list)))
            return NULL;
        for (int64_t e = 0; e < tensor_numel(mask); e++)
            tensor_set_int(mask, e, tensor_int(mask, e) && tensor_float(other, e) == tensor_float(result, e));
    }
    return mask;
}

/* Output o of the node, whose inputs are known in part. */
static Known output_of_inputs(Importer *im, const Node *n, int o, const Known *const *in)
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
    k.mask = whole   ? make_mask(im, &k.t->shape, true)
             : moves ? moved_mask(im, n, o, in)
                     : computed_mask(im, n, o, in, k.t);
    return k.mask ? k : unknown;
}

static Known output_of_node(Importer *im, const Node *n, int o, int steps)
{
    const Known **in;

    if (!im->eval || !n->op || !n->n_in || !has_value(n->in[0]) || op_is_impure(n->op))
        return unknown;
    if (n->op->flags & OPF_SHAPE_ONLY)
        return output_of_shape(im, n, o);
    if (!(in = ARENA_NEW(im->scratch, const Known *, n->n_in)))
        return unknown;
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && (!(in[i] = known_of(im, n->in[i], steps)) || !in[i]->t))
            return unknown;
    return output_of_inputs(im, n, o, in);
}

/* ---- by value ---- */

/* Finds the known elements of v, looking back over `steps` nodes at most; the result is kept.  NULL: the chain is
 * longer, or there is no memory. */
static const Known *known_of(Importer *im, ValueId v, int steps)
{
    const Known **known = steps ? by_value(im, (void *)im->known, sizeof *known, &im->n_known) : NULL, *kept;
    const Value *x = value(im->g, v);
    Known k = unknown;

    if (!known)
        return NULL;
    im->known = known;
    if (im->known[v.i])
        return im->known[v.i];
    if (value_const(im->g, v) && tensor_numel(x->init) <= MAX_KNOWN)
        k = (Known){ .t = x->init, .mask = make_mask(im, &x->init->shape, true) };
    else if (!value_const(im->g, v) && x->producer)
        k = output_of_node(im, x->producer, x->out_index, steps - 1);
    if (!k.t || !k.mask)
        return im->known[v.i] = &unknown;
    if (!(kept = arena_memdup(im->scratch, &k, sizeof k)))
        return NULL;
    return im->known[v.i] = kept;
}

bool known_number(int64_t *out, Importer *im, ValueId v)
{
    const Known *k = has_value(v) ? known_of(im, v, MAX_STEPS) : NULL;

    if (!k || !k->t || tensor_numel(k->t) != 1 || !tensor_int(k->mask, 0) || dtype_is_float(k->t->dtype))
        return false;
    *out = tensor_int(k->t, 0);
    return true;
}

bool known_by_size(const Importer *im, ValueId v)
{
    return v.i < im->n_known && im->known[v.i] && im->known[v.i]->sized;
}

/* Does v depend on sizes and constants alone?  *steps limits the nodes that are visited. */
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

/* The size of v along an axis; -1: not known.  If v's shape is unknown because other sizes are open, Unsqueeze and
 * Concat along the axis are followed: outputs of trips, stacked. */
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
