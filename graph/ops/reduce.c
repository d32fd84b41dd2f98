/* Reductions along axes.
 *
 * A ReduceSum of 16-bit floats with wide = 1 returns its float32 sum unrounded.
 *
 * The axes are input 1 (older opsets: an attribute).  Without axes all are reduced, or none with noop_with_empty_axes.
 * Sums over a split axis give partial sums.  ReduceMean is lowered to a sum and a division by the number of elements in
 * the whole batch, so it is exact over parts of different sizes. */
#include "graph/ops/reduce.h"

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

static Status reduce_import(Graph *g, Node *n, int opset)
{
    (void)opset;
    return import_attr_to_input(g, n, "axes", 1);
}

/* Older opsets reduce all axes if none are given. */
static bool reduce_respell(Graph *g, Node *n, int opset)
{
    const Tensor *axes = in_const(g, n, 1);

    (void)opset;
    if (node_int(n, "noop_with_empty_axes") && (!axes || !tensor_numel(axes)))
        return false;
    node_remove_attr(g, n, "noop_with_empty_axes");
    return respell_input_to_attr(g, n, 1, "axes");
}

Status reduce_axes(unsigned *out, const Graph *g, const Node *n)
{
    int rank = in_value(g, n, 0)->shape->rank, count = 0, axis;
    int64_t axes[MAX_RANK];
    unsigned mask = 0;

    if (has_in(n, 1))
        TRY(value_const_ints(g, n->in[1], axes, MAX_RANK, &count));
    for (int i = 0; i < count; i++) {
        TRY(shape_axis(&axis, axes[i], rank, node_text(g, n)));
        mask |= 1u << axis;
    }
    if (!count && !node_int(n, "noop_with_empty_axes"))
        mask = (1u << rank) - 1;
    *out = mask;
    return ST_OK;
}

static Status reduce_infer(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = { 0 }, unknown = shape_unknown();
    unsigned mask;

    set_out(g, n, 0, x->dtype, &unknown);
    if (has_in(n, 1) && !value_const(g, n->in[1]))
        return ST_OK;
    TRY(reduce_axes(&mask, g, n));
    for (int i = 0; i < x->shape->rank; i++)
        if (!(mask >> i & 1))
            y.dim[y.rank++] = x->shape->dim[i];
        else if (node_int(n, "keepdims"))
            y.dim[y.rank++] = 1;
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static Status infer_sum(Graph *g, Node *n)
{
    Value *y;

    TRY(reduce_infer(g, n));
    y = value(g, n->out[0]);
    if (node_int(n, "wide") && dtype_size(y->dtype) == 2 && dtype_is_float(y->dtype))
        y->dtype = DT_FLOAT32;
    return ST_OK;
}

/* ---- gradients ---- */

/* Reshapes v, of y's shape, to broadcast to x. */
static Status spread(ValueId *out, Grad *gr, ValueId v)
{
    Shape kept = *grad_in_value(gr, 0)->shape;
    unsigned mask;

    TRY(reduce_axes(&mask, gr->g, gr->node));
    for (int i = 0; i < kept.rank; i++)
        if (mask >> i & 1)
            kept.dim[i] = 1;
    *out = emit_reshape(gr->g, v, &kept);
    if (!gr->g->status && value(gr->g, *out)->batch_axis == BATCH_UNKNOWN)
        value(gr->g, *out)->batch_axis = grad_in_value(gr, 0)->batch_axis;
    return gr->g->status;
}

/* The number of elements of x that are reduced to one of y. */
static Status reduced_count(int64_t *out, const Graph *g, const Node *n)
{
    unsigned mask;

    TRY(reduce_axes(&mask, g, n));
    *out = 1;
    for (int i = 0; i < in_value(g, n, 0)->shape->rank; i++)
        if (mask >> i & 1)
            *out *= in_value(g, n, 0)->shape->dim[i];
    return ST_OK;
}

static Status grad_sum(Grad *gr)
{
    ValueId dy = grad_dout(gr, 0);

    if (value(gr->g, dy)->dtype != grad_in_value(gr, 0)->dtype)
        dy = emit_cast(gr->g, dy, grad_in_value(gr, 0)->dtype);
    TRY(spread(&dy, gr, dy));
    grad_set(gr, 0, emit_expand(gr->g, dy, grad_in_value(gr, 0)->shape));
    return gr->g->status;
}

static Status grad_mean(Grad *gr)
{
    int64_t count;
    ValueId dy;

    TRY(reduced_count(&count, gr->g, gr->node));
    TRY(spread(&dy, gr, EMIT(gr->g, Div, NULL, grad_dout(gr, 0), grad_number(gr, (double)count))));
    grad_set(gr, 0, emit_expand(gr->g, dy, grad_in_value(gr, 0)->shape));
    return gr->g->status;
}

/* dy * factor, both broadcast to x's shape */
static Status set_times(Grad *gr, ValueId dy, ValueId factor)
{
    grad_set(gr, 0, EMIT(gr->g, Mul, NULL, dy, factor));
    return gr->g->status;
}

/* dy sign(x) */
static Status grad_l1(Grad *gr)
{
    ValueId dy;

    TRY(spread(&dy, gr, grad_dout(gr, 0)));
    return set_times(gr, dy, EMIT(gr->g, Sign, NULL, grad_in(gr, 0)));
}

/* dy x / y, and 0 where y = 0 */
static Status grad_l2(Grad *gr)
{
    Graph *g = gr->g;
    ValueId y = grad_out(gr, 0), zero = grad_number(gr, 0), scale;

    scale = EMIT(g, Div, NULL, grad_dout(gr, 0), y);
    scale = EMIT(g, Where, NULL, EMIT(g, Equal, NULL, y, zero), zero, scale);
    TRY(spread(&scale, gr, scale));
    return set_times(gr, scale, grad_in(gr, 0));
}

/* dy 2 x */
static Status grad_sum_square(Grad *gr)
{
    ValueId dy;

    TRY(spread(&dy, gr, EMIT(gr->g, Mul, NULL, grad_dout(gr, 0), grad_number(gr, 2))));
    return set_times(gr, dy, grad_in(gr, 0));
}

/* dy exp(x - y) */
static Status grad_log_sum_exp(Grad *gr)
{
    Graph *g = gr->g;
    ValueId y, dy;

    TRY(spread(&y, gr, grad_out(gr, 0)));
    TRY(spread(&dy, gr, grad_dout(gr, 0)));
    return set_times(gr, dy, EMIT(g, Exp, NULL, EMIT(g, Sub, NULL, grad_in(gr, 0), y)));
}

static ValueId sum_kept(Grad *gr, ValueId x)
{
    return EMIT(gr->g, ReduceSum,
                ATTRS(INT("keepdims", 1), INT("noop_with_empty_axes", node_int(gr->node, "noop_with_empty_axes"))), x,
                grad_in(gr, 1));
}

/* All elements that equal the extreme get equal shares of dy, as in PyTorch's amax. */
static Status reduce_grad_extreme(Grad *gr)
{
    Graph *g = gr->g;
    ValueId y, dy, hit, count;

    if (!dtype_is_float(grad_in_value(gr, 0)->dtype))
        return grad_none(gr);
    TRY(spread(&y, gr, grad_out(gr, 0)));
    TRY(spread(&dy, gr, grad_dout(gr, 0)));
    hit = EMIT(g, Equal, NULL, grad_in(gr, 0), y);
    count = sum_kept(gr, emit_cast(g, hit, grad_in_value(gr, 0)->dtype));
    dy = EMIT(g, Div, NULL, dy, count);
    grad_set(gr, 0, EMIT(g, Where, NULL, hit, dy, grad_number(gr, 0)));
    return g->status;
}

/* dy times the product of the other elements.  p is the product of all elements but zeros.  The product of the others
 * is p / x if there is no zero, p at an only zero, and 0 otherwise. */
static Status grad_prod(Grad *gr)
{
    Graph *g = gr->g;
    DType t = grad_in_value(gr, 0)->dtype;
    ValueId dy, zero, is_zero, rest, p, own, zeros, others;

    if (!dtype_is_float(t))
        return grad_none(gr);
    TRY(spread(&dy, gr, grad_dout(gr, 0)));
    zero = grad_number(gr, 0);
    is_zero = EMIT(g, Equal, NULL, grad_in(gr, 0), zero);
    own = emit_cast(g, is_zero, t);
    zeros = sum_kept(gr, own);
    rest = EMIT(g, Where, NULL, is_zero, grad_number(gr, 1), grad_in(gr, 0));
    p = EMIT(g, ReduceProd,
             ATTRS(INT("keepdims", 1), INT("noop_with_empty_axes", node_int(gr->node, "noop_with_empty_axes"))), rest,
             grad_in(gr, 1));
    others = EMIT(g, Div, NULL, p, rest);
    others = EMIT(g, Where, NULL, EMIT(g, Equal, NULL, zeros, own), others, zero);
    return set_times(gr, dy, others);
}

/* ---- lowering ---- */

static ValueId reduce_emit_like(Graph *g, const Node *n, const OpDef *op, ValueId x)
{
    const Attr *attrs = ATTRS(INT("keepdims", node_int(n, "keepdims")),
                              INT("noop_with_empty_axes", node_int(n, "noop_with_empty_axes")));

    return emit(g, op, attrs, has_in(n, 1) ? 2 : 1, (ValueId[]){ x, has_in(n, 1) ? n->in[1] : NO_VALUE });
}

static Status lower_mean(Graph *g, Node *n)
{
    int64_t count;
    ValueId sum;

    if (!dtype_is_float(in_value(g, n, 0)->dtype) || !shape_known(in_value(g, n, 0)->shape) ||
        (has_in(n, 1) && !value_const(g, n->in[1])))
        return ST_OK;
    TRY(reduced_count(&count, g, n));
    sum = reduce_emit_like(g, n, &op_ReduceSum, n->in[0]);
    graph_replace(g, n->out[0], EMIT(g, Div, NULL, sum, emit_scalar(g, in_value(g, n, 0)->dtype, (double)count)));
    return g->status;
}

static Status lower_log_sum(Graph *g, Node *n)
{
    if (!dtype_is_float(in_value(g, n, 0)->dtype))
        return ST_OK;
    graph_replace(g, n->out[0], EMIT(g, Log, NULL, reduce_emit_like(g, n, &op_ReduceSum, n->in[0])));
    return g->status;
}

/* ---- placement ---- */

static Status place_axes(Placement *p, bool is_sum)
{
    unsigned mask;

    if (has_in(p->node, 1) && !value_const(p->g, p->node->in[1]))
        return place_all_b(p);
    TRY(reduce_axes(&mask, p->g, p->node));
    return place_reduce(p, mask, node_int(p->node, "keepdims") != 0, is_sum);
}

static Status place_sum(Placement *p) { return place_axes(p, true); }

/* A sum of a function of the elements: partial inputs are reduced first. */
static Status place_sum_of(Placement *p)
{
    if (p->in[0].kind == PL_P)
        p->in[0] = PLACE_B;
    return place_axes(p, true);
}

static Status place_other(Placement *p) { return place_axes(p, false); }

static const AttrDecl attrs[] = { { "keepdims", A_INT, .i = 1 }, { "noop_with_empty_axes", A_INT, .i = 0 }, { 0 } };

static const AttrDecl attrs_sum[] = { { "keepdims", A_INT, .i = 1 },
                                      { "noop_with_empty_axes", A_INT, .i = 0 },
                                      { "wide", A_INT, .rule = ATTR_OURS },
                                      { 0 } };

#define REDUCTION(version, first, types)                                                                        \
    .blocks = BLOCKS_PASS, .layout = LAYOUT_ANY, .since = (version), .from = (first), .in_min = 1, .in_max = 2, \
    .out_min = 1, .out_max = 1, .dtypes = (types), .flops_of = FLOPS_OF_INPUT, .import = reduce_import,         \
    .respell = reduce_respell
#define REDUCE(version, first, types) REDUCTION(version, first, types), .attrs = attrs, .infer = reduce_infer

DEFINE_OP(ReduceSum, .precision = PREC_WIDE, REDUCTION(13, 13, DTYPES_NUMERIC), .attrs = attrs_sum, .infer = infer_sum,
          .grad = grad_sum, .place = place_sum, .doc = "sum along axes");
DEFINE_OP(ReduceMean, REDUCE(18, 18, DTYPES_NUMERIC), .grad = grad_mean, .lower = lower_mean, .place = place_other,
          .doc = "mean along axes");
DEFINE_OP(ReduceMax, REDUCE(20, 18, DTYPES_ALL), .grad = reduce_grad_extreme, .place = place_other,
          .doc = "largest along axes");
DEFINE_OP(ReduceMin, REDUCE(20, 18, DTYPES_ALL), .grad = reduce_grad_extreme, .place = place_other,
          .doc = "smallest along axes");
DEFINE_OP(ReduceProd, .precision = PREC_WIDE, REDUCE(18, 18, DTYPES_NUMERIC), .grad = grad_prod, .place = place_other,
          .doc = "product along axes");
DEFINE_OP(ReduceL1, .precision = PREC_WIDE, REDUCE(18, 18, DTYPES_NUMERIC), .grad = grad_l1, .place = place_sum_of,
          .doc = "sum of |x| along axes");
DEFINE_OP(ReduceL2, .precision = PREC_WIDE, REDUCE(18, 18, DTYPES_NUMERIC), .grad = grad_l2, .place = place_other,
          .doc = "root of the sum of squares");
DEFINE_OP(ReduceSumSquare, .precision = PREC_WIDE, REDUCE(18, 18, DTYPES_NUMERIC), .grad = grad_sum_square,
          .place = place_sum_of, .doc = "sum of x^2 along axes");
DEFINE_OP(ReduceLogSum, .precision = PREC_WIDE, REDUCE(18, 18, DTYPES_NUMERIC), .lower = lower_log_sum,
          .place = place_other, .doc = "log of the sum");
DEFINE_OP(ReduceLogSumExp, .precision = PREC_WIDE, REDUCE(18, 18, DTYPES_NUMERIC), .grad = grad_log_sum_exp,
          .place = place_other, .doc = "log of the sum of e^x");
