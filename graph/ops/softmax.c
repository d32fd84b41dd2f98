/* Softmax: y = exp(x - max(x)) / sum(exp(x - max(x))) along one axis; LogSoftmax: its logarithm. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/arg.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/select.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"

/* Up to opset 12 the sum goes over all axes from `axis` (default 1) on, as if these were flattened to one.  Attribute
 * `flatten` keeps that until shapes are known; `lower` then reshapes, so later passes never meet the attribute. */
static Status softmax_import(Graph *g, Node *n, int opset)
{
    if (opset >= 13)
        return ST_OK;
    if (!node_attr(n, "axis"))
        node_set_int(g, n, "axis", 1);
    node_set_int(g, n, "flatten", 1);
    return g->status;
}

/* Do all axes after `axis` have size 1?  Then both meanings are equal. */
static bool ends_at_axis(const Shape *x, int64_t axis)
{
    bool ones = axis == -1 || (axis >= 0 && axis < x->rank);

    for (int i = (int)axis + 1; ones && axis >= 0 && i < x->rank; i++)
        ones = x->dim[i] == 1;
    return ones;
}

static bool softmax_respell(Graph *g, Node *n, int opset)
{
    (void)opset;
    if (!node_int(n, "flatten") && !ends_at_axis(in_value(g, n, 0)->shape, node_int(n, "axis")))
        return false;
    node_remove_attr(g, n, "flatten");
    return true;
}

static Status softmax_infer(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;

    TRY(infer_axis(g, n, x->rank));
    if (ends_at_axis(x, node_int(n, "axis")))
        node_set_int(g, n, "flatten", 0);
    return infer_like(g, n, 0);
}

static Status softmax_lower(Graph *g, Node *n)
{
    ValueId rows, y;

    if (!node_int(n, "flatten"))
        return ST_OK;
    rows = EMIT(g, Flatten, ATTRS(INT("axis", node_int(n, "axis"))), n->in[0]);
    y = emit(g, n->op, ATTRS(INT("axis", 1)), 1, &rows);
    graph_replace(g, n->out[0], emit_reshape(g, y, in_value(g, n, 0)->shape));
    return g->status;
}

static ValueId sum_along(Grad *gr, ValueId v)
{
    int64_t axis = node_int(gr->node, "axis");

    return emit_reduce_sum(grad_graph(gr), v, 1, &axis, true);
}

/* dx = y * (dy - sum(dy * y)).  It reads y, not x, so the memory planner may drop x after the forward pass. */
static Status grad_softmax(Grad *gr)
{
    Graph *g = grad_graph(gr);
    ValueId y = grad_out(gr, 0), dy = grad_dout(gr, 0);
    ValueId s = sum_along(gr, EMIT(g, Mul, NULL, dy, y));

    grad_set(gr, 0, EMIT(g, Mul, NULL, y, EMIT(g, Sub, NULL, dy, s)));
    return g->status;
}

/* dx = dy - exp(y) * sum(dy). */
static Status grad_log_softmax(Grad *gr)
{
    Graph *g = grad_graph(gr);
    ValueId y = grad_out(gr, 0), dy = grad_dout(gr, 0);
    ValueId s = sum_along(gr, dy), p = EMIT(g, Exp, NULL, y);

    grad_set(gr, 0, EMIT(g, Sub, NULL, dy, EMIT(g, Mul, NULL, p, s)));
    return g->status;
}

static const AttrDecl attrs[] = { { "axis", A_INT, .i = -1, .range = R_AXIS },
                                  { "flatten", A_INT, .rule = ATTR_OURS },
                                  { 0 } };

DEFINE_OP(Softmax, .blocks = BLOCKS_PASS, .layout = LAYOUT_ANY, .precision = PREC_WIDE, .since = 13, .in_min = 1,
          .in_max = 1, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .inplace = { 1 }, .attrs = attrs,
          .doc = "y = exp(x) / sum(exp(x)) along axis", .import = softmax_import, .respell = softmax_respell,
          .infer = softmax_infer, .lower = softmax_lower, .grad = grad_softmax, .place = place_all_but_axis);

DEFINE_OP(LogSoftmax, .blocks = BLOCKS_PASS, .layout = LAYOUT_ANY, .precision = PREC_WIDE, .since = 13, .in_min = 1,
          .in_max = 1, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .inplace = { 1 }, .attrs = attrs,
          .doc = "y = x - log(sum(exp(x))) along axis", .import = softmax_import, .respell = softmax_respell,
          .infer = softmax_infer, .lower = softmax_lower, .grad = grad_log_softmax, .place = place_all_but_axis);

/* ---- Hardmax ---- */

/* 1 at the first of the largest along the axis; with `flatten` along all axes from there on, as one. */
static Status lower_hardmax(Graph *g, Node *n)
{
    const DType t = in_value(g, n, 0)->dtype;
    Shape x = *in_value(g, n, 0)->shape, words = { 0 };
    int64_t axis = node_int(n, "axis"), depth = x.dim[axis];
    ValueId y = n->in[0], size;
    bool flat = node_int(n, "flatten") && axis < x.rank - 1;

    if (shape_numel(&x) == 0) {
        graph_replace(g, n->out[0], y);
        return g->status;
    }
    if (flat) {
        words.rank = (int)axis + 1;
        words.dim[axis] = depth = shape_count(&x, (int)axis, x.rank);
        y = EMIT(g, Reshape, NULL, y, emit_ints(g, words.rank, words.dim));
    }
    y = EMIT(g, ArgMax, ATTRS(INT("axis", axis), INT("keepdims", 0)), y);
    size = emit_scalar(g, DT_INT64, (double)depth);
    y = EMIT(g, OneHot, ATTRS(INT("axis", axis)), y, size, emit_cast(g, emit_ints(g, 2, (int64_t[]){ 0, 1 }), t));
    if (flat) {
        for (int i = 0; i < axis; i++)
            x.dim[i] = 0;
        y = EMIT(g, Reshape, NULL, y, emit_ints(g, x.rank, x.dim));
    }
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

DEFINE_OP(Hardmax, .since = 13, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .flags = OPF_ZERO_GRAD, .attrs = attrs, .doc = "1 at the first of the largest along axis, else 0",
          .import = softmax_import, .respell = softmax_respell, .infer = softmax_infer, .lower = lower_hardmax);
