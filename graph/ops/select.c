/* OneHot, NonZero, Compress, Trilu and TopK. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/select.gen.h"

/* ---- OneHot ---- */

static Status infer_one_hot(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    const Tensor *depth = value_const(g, n->in[1]);
    Shape y = shape_unknown();
    int axis;

    if (in_value(g, n, 1)->dtype == DT_STRING)
        return FAIL(E_SHAPE, "%s: depth is string, expected a number", node_text(g, n));
    set_out(g, n, 0, in_value(g, n, 2)->dtype, &y);
    if (in_value(g, n, 2)->shape->rank != 1 || in_value(g, n, 2)->shape->dim[0] != 2)
        return FAIL(E_SHAPE, "%s: values must be a vector of two", node_text(g, n));
    if (x->rank == MAX_RANK)
        return FAIL(E_SHAPE, "%s: more than %d dimensions", node_text(g, n), MAX_RANK);
    TRY(shape_axis(&axis, node_int(n, "axis"), x->rank + 1, node_text(g, n)));
    if (!depth)
        return ST_OK;
    if (tensor_numel(depth) != 1 || tensor_int(depth, 0) < 0)
        return FAIL(E_SHAPE, "%s: depth must be one number >= 0", node_text(g, n));
    y.rank = 0;
    for (int i = 0; i <= x->rank; i++)
        y.dim[y.rank++] = i == axis ? tensor_int(depth, 0) : x->dim[i < axis ? i : i - 1];
    set_out(g, n, 0, in_value(g, n, 2)->dtype, &y);
    return ST_OK;
}

/* Gradient by the values (off, on): y = off + (on - off) h, where h is 1 at the index and 0 elsewhere. */
static Status grad_one_hot(Grad *gr)
{
    Graph *g = gr->g;
    const Attr *attrs = ATTRS(INT("axis", node_int(gr->node, "axis")));
    const Shape scalar = shape_scalar(), one = SHAPE(1), two = SHAPE(2);
    ValueId dy = grad_dout(gr, 0), h, all, on, off;
    Tensor *off_on;

    if (!grad_wanted(gr, 2))
        return ST_OK;
    if (!(off_on = tensor_create(g->arena, grad_in_value(gr, 2)->dtype, &two)))
        return FAIL_NOMEM();
    tensor_set_float(off_on, 0, 0);
    tensor_set_float(off_on, 1, 1);
    h = EMIT(g, OneHot, attrs, grad_in(gr, 0), grad_in(gr, 1), graph_add_const_nocopy(g, "off_on", off_on));
    all = emit_sum_to_shape(g, dy, &scalar);
    on = emit_sum_to_shape(g, EMIT(g, Mul, NULL, dy, h), &scalar);
    off = emit_reshape(g, EMIT(g, Sub, NULL, all, on), &one);
    grad_set(gr, 2, EMIT(g, Concat, ATTRS(INT("axis", 0)), off, emit_reshape(g, on, &one)));
    return g->status;
}

static Status place_one_hot(Placement *p)
{
    int rank = in_value(p->g, p->node, 0)->shape->rank, to[MAX_RANK];
    int64_t axis = node_int(p->node, "axis") < 0 ? node_int(p->node, "axis") + rank + 1 : node_int(p->node, "axis");

    for (int a = 0; a < rank; a++)
        to[a] = a < axis ? a : a + 1;
    if (p->in[0].kind == PL_P)
        p->in[0] = PLACE_B;
    return place_moved(p, to, "");
}

static int64_t index_range_one_hot(const Graph *g, const Node *n, int i)
{
    const Tensor *depth = value_const(g, n->in[1]);

    return i == 0 && depth ? tensor_int(depth, 0) : -1;
}

DEFINE_OP(OneHot, .flops_of = FLOPS_OF_NOTHING, .tunable_in = 4, .since = 11, .from = 9, .in_min = 3, .in_max = 3,
          .out_min = 1, .out_max = 1, .dtypes = DTYPES_ALL,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .i = -1, .range = R_AXIS }, { 0 } }, .infer = infer_one_hot,
          .grad = grad_one_hot, .place = place_one_hot, .index_range = index_range_one_hot, .index_misses = true,
          .doc = "a new axis with one value on, the others off");

/* ---- NonZero ---- */

static Status infer_non_zero(Graph *g, Node *n)
{
    const Tensor *x = value_const(g, n->in[0]);
    Shape y = shape_unknown();

    if (x) {
        y = SHAPE(in_value(g, n, 0)->shape->rank, 0);
        for (int64_t i = 0; i < tensor_numel(x); i++)
            y.dim[1] += tensor_float(x, i) != 0;
    }
    set_out(g, n, 0, DT_INT64, &y);
    return ST_OK;
}

DEFINE_OP(NonZero, .flops_of = FLOPS_OF_NOTHING, .since = 13, .from = 9, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = 1, .flags = OPF_DYNAMIC, .infer = infer_non_zero, .grad = grad_none,
          .doc = "the indices of elements that are not zero, [rank, count]");

/* ---- Compress ---- */

#define NO_AXIS INT64_MIN

static Status infer_compress(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const Tensor *condition = value_const(g, n->in[1]);
    Shape y = shape_unknown();
    int64_t limit, count = 0;

    if (node_int(n, "axis") != NO_AXIS)
        TRY(infer_axis(g, n, x->shape->rank));
    if (in_value(g, n, 1)->dtype != DT_BOOL || in_value(g, n, 1)->shape->rank != 1)
        return FAIL(E_SHAPE, "%s: the condition must be a vector of bool", node_text(g, n));
    limit = node_int(n, "axis") == NO_AXIS ? shape_numel(x->shape) : x->shape->dim[node_int(n, "axis")];
    if (condition) {
        for (int64_t i = 0; i < tensor_numel(condition) && i < limit; i++)
            count += tensor_int(condition, i);
        y = *x->shape;
        if (node_int(n, "axis") == NO_AXIS)
            y = SHAPE(count);
        else
            y.dim[node_int(n, "axis")] = count;
    }
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

/* A constant condition becomes a Gather at the indices where it is true. */
static Status lower_compress(Graph *g, Node *n)
{
    const Tensor *condition = value_const(g, n->in[1]);
    const bool flat = node_int(n, "axis") == NO_AXIS;
    const Shape line = SHAPE(shape_numel(in_value(g, n, 0)->shape));
    ValueId x = n->in[0], chosen;
    int64_t *index, at = 0, limit;
    Shape s;

    if (!condition)
        return ST_OK;
    limit = flat ? line.dim[0] : in_value(g, n, 0)->shape->dim[node_int(n, "axis")];
    if (!(index = ARENA_NEW(g->arena, int64_t, tensor_numel(condition) + 1)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < tensor_numel(condition) && i < limit; i++)
        if (tensor_int(condition, i))
            index[at++] = i;
    s = SHAPE(at);
    chosen = graph_add_const(g, "index", &(Tensor){ DT_INT64, s, index });
    x = flat ? emit_reshape(g, x, &line) : x;
    graph_replace(g, n->out[0], EMIT(g, Gather, ATTRS(INT("axis", flat ? 0 : node_int(n, "axis"))), x, chosen));
    return g->status;
}

DEFINE_OP(Compress, .flops_of = FLOPS_OF_NOTHING, .since = 11, .from = 9, .in_min = 2, .in_max = 2, .out_min = 1,
          .out_max = 1, .flags = OPF_DYNAMIC,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .i = NO_AXIS, .range = R_AXIS }, { 0 } },
          .infer = infer_compress, .lower = lower_compress,
          .doc = "slices along axis (elements of the flattened x without one) where the condition is true");

/* ---- Trilu ---- */

static Status infer_trilu(Graph *g, Node *n)
{
    if (in_value(g, n, 0)->shape->rank < 2)
        return FAIL(E_SHAPE, "%s: an input of rank %d is no matrix", node_text(g, n), in_value(g, n, 0)->shape->rank);
    if (has_in(n, 1) && (in_value(g, n, 1)->dtype != DT_INT64 || shape_numel(in_value(g, n, 1)->shape) != 1))
        return FAIL(E_SHAPE, "%s: k must be an int64 scalar", node_text(g, n));
    return infer_like(g, n, 0);
}

static Status grad_trilu(Grad *gr)
{
    grad_set(gr, 0,
             EMIT(gr->g, Trilu, ATTRS(INT("upper", node_int(gr->node, "upper"))), grad_dout(gr, 0), grad_in(gr, 1)));
    return gr->g->status;
}

static Status place_trilu(Placement *p)
{
    int rank = in_value(p->g, p->node, 0)->shape->rank, to[MAX_RANK];

    for (int a = 0; a < rank; a++)
        to[a] = a < rank - 2 ? a : -1;
    return place_moved(p, to, "it cuts a triangle across the batch");
}

DEFINE_OP(Trilu, .flops_of = FLOPS_OF_NOTHING, .since = 14, .in_min = 1, .in_max = 2, .out_min = 1, .out_max = 1,
          .inplace = { 1 }, .attrs = (const AttrDecl[]){ { "upper", A_INT, .i = 1 }, { 0 } }, .infer = infer_trilu,
          .grad = grad_trilu, .place = place_trilu, .doc = "the upper or lower triangle, zeros elsewhere");

/* ---- TopK ---- */

/* Up to opset 9 k was an attribute. */
static Status import_top_k(Graph *g, Node *n, int opset)
{
    return opset < 10 ? import_attr_to_input(g, n, "k", 1) : ST_OK;
}

static bool respell_top_k(Graph *g, Node *n, int opset)
{
    double k;

    if (!respell_without(g, n, "largest") || !respell_without(g, n, "sorted"))
        return false;
    if (opset >= 10)
        return true;
    if (!value_const_number(g, n->in[1], &k))
        return false;
    node_set_int(g, n, "k", (int64_t)k);
    n->n_in = 1;
    return true;
}

static Status infer_top_k(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const Tensor *k = value_const(g, n->in[1]);
    Shape y = shape_unknown();
    int64_t axis;

    TRY(infer_axis(g, n, x->shape->rank));
    axis = node_int(n, "axis");
    if (k) {
        y = *x->shape;
        if (tensor_numel(k) != 1 || tensor_int(k, 0) < 0 || tensor_int(k, 0) > y.dim[axis])
            return FAIL(E_SHAPE, "%s: k must be one number from 0 to %lld", node_text(g, n), (long long)y.dim[axis]);
        y.dim[axis] = tensor_int(k, 0);
    }
    set_out(g, n, 0, x->dtype, &y);
    set_out(g, n, 1, DT_INT64, &y);
    return g->status;
}

static Status grad_top_k(Grad *gr)
{
    Graph *g = gr->g;
    const Attr *attrs = ATTRS(INT("axis", node_int(gr->node, "axis")));

    if (has_value(grad_dout(gr, 0)))
        grad_set(
            gr, 0,
            EMIT(g, ScatterElements, attrs, emit_zeros_like(g, grad_in(gr, 0)), grad_out(gr, 1), grad_dout(gr, 0)));
    return g->status;
}

static Status place_top_k(Placement *p)
{
    int64_t axis = node_int(p->node, "axis");

    p->in[1] = PLACE_B;
    if (p->in[0].kind == PL_S && p->in[0].axis == axis)
        place_mixes(p, "it compares samples of the batch");
    if (p->in[0].kind == PL_P || (p->in[0].kind == PL_S && p->in[0].axis == axis))
        p->in[0] = PLACE_B;
    place_set_all(p, p->in[0]);
    return ST_OK;
}

static const AttrDecl top_k_attrs[] = {
    { "axis", A_INT, .i = -1, .range = R_AXIS }, { "largest", A_INT, .i = 1 }, { "sorted", A_INT, .i = 1 }, { 0 }
};

DEFINE_OP(TopK, .flags = OPF_SELECTS, .since = 11, .in_min = 2, .in_max = 2, .out_min = 2, .out_max = 2,
          .dtypes = DTYPES_NUMERIC, .attrs = top_k_attrs, .import = import_top_k, .respell = respell_top_k,
          .infer = infer_top_k, .grad = grad_top_k, .place = place_top_k,
          .doc = "the k largest (smallest) along axis and their indices, in order; of equals the first");
