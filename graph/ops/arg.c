/* Operators along one axis: ArgMax, ArgMin, CumSum, CumProd. */
#include "graph/ir/emit.h"
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/arg.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/index.gen.h"

/* ---- ArgMax, ArgMin ---- */

static Status infer_arg(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    Shape y = { 0 };
    int64_t axis;

    TRY(infer_axis(g, n, x->rank));
    axis = node_int(n, "axis");
    if (x->dim[axis] == 0 && shape_numel(x) == 0 &&
        shape_count(x, 0, (int)axis) * shape_count(x, (int)axis + 1, x->rank) != 0)
        return FAIL(E_SHAPE, "%s: axis %d has no elements to choose from", node_text(g, n), (int)axis);
    for (int i = 0; i < x->rank; i++)
        if (i != axis)
            y.dim[y.rank++] = x->dim[i];
        else if (node_int(n, "keepdims"))
            y.dim[y.rank++] = 1;
    set_out(g, n, 0, DT_INT64, &y);
    return ST_OK;
}

static Status place_arg(Placement *p)
{
    if (p->in[0].kind == PL_P)
        p->in[0] = PLACE_B;
    return place_reduce(p, 1u << node_int(p->node, "axis"), node_int(p->node, "keepdims") != 0, false);
}

static bool respell_arg(Graph *g, Node *n, int opset)
{
    (void)g;
    (void)opset;
    return respell_without(g, n, "select_last_index");
}

static const AttrDecl arg_attrs[] = {
    { "axis", A_INT, .range = R_AXIS }, { "keepdims", A_INT, .i = 1 }, { "select_last_index", A_INT, .i = 0 }, { 0 }
};

#define ARG                                                                                                \
    .since = 13, .from = 12, .respell = respell_arg, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, \
    .dtypes = DTYPES_NUMERIC, .attrs = arg_attrs, .infer = infer_arg, .grad = grad_none, .place = place_arg

DEFINE_OP(ArgMax, ARG, .doc = "index of the largest along axis; the first of equals, or the last");
DEFINE_OP(ArgMin, ARG, .doc = "index of the smallest along axis; the first of equals, or the last");

/* ---- CumSum ---- */

/* The constant axis of CumSum or CumProd, as >= 0. */
static Status cumulated_axis(const Graph *g, const Node *n, int *axis)
{
    int64_t v[1];
    int count;

    TRY(value_const_ints(g, n->in[1], v, 1, &count));
    if (!count)
        return FAIL(E_SHAPE, "%s: the axis is empty", node_text(g, n));
    return shape_axis(axis, v[0], in_value(g, n, 0)->shape->rank, node_text(g, n));
}

static Status infer_cumsum(Graph *g, Node *n)
{
    const Value *axis = in_value(g, n, 1);
    int a;

    if ((axis->dtype != DT_INT32 && axis->dtype != DT_INT64) || shape_numel(axis->shape) != 1)
        return FAIL(E_SHAPE, "%s: the axis must be one int32 or int64", node_text(g, n));
    if (value_const(g, n->in[1]))
        TRY(cumulated_axis(g, n, &a));
    return infer_like(g, n, 0);
}

/* Each element is part of all later sums, so its gradient is the sum of all later gradients: a CumSum backward. */
static Status grad_cumsum(Grad *gr)
{
    const Attr *backward =
        ATTRS(INT("exclusive", node_int(gr->node, "exclusive")), INT("reverse", !node_int(gr->node, "reverse")));

    grad_set(gr, 0, EMIT(gr->g, CumSum, backward, grad_dout(gr, 0), grad_in(gr, 1)));
    return gr->g->status;
}

/* Linear; only a split along the axis itself is gathered. */
static Status place_cumsum(Placement *p)
{
    int to[MAX_RANK], axis;

    if (!value_const(p->g, p->node->in[1]))
        return place_all_b(p);
    TRY(cumulated_axis(p->g, p->node, &axis));
    for (int i = 0; i < MAX_RANK; i++)
        to[i] = i == axis ? -1 : i;
    return place_moved(p, to, "it adds along the split axis");
}

DEFINE_OP(CumSum, .since = 14, .from = 11, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_NUMERIC,
          .attrs = (const AttrDecl[]){ { "exclusive", A_INT, .i = 0 }, { "reverse", A_INT, .i = 0 }, { 0 } },
          .infer = infer_cumsum, .grad = grad_cumsum, .place = place_cumsum, .doc = "running sums along axis");

/* ---- CumProd ---- */

/* dx[i] = (product of x before i) R[i], R[i] = dy[i] + x[i+1] R[i+1].  Nothing is divided, so zeros in x are fine. */
static Status grad_cumprod(Grad *gr)
{
    const Attr *attrs =
        ATTRS(INT("exclusive", node_int(gr->node, "exclusive")), INT("reverse", node_int(gr->node, "reverse")));

    grad_set(gr, 0, EMIT(gr->g, CumProdGrad, attrs, grad_in(gr, 0), grad_in(gr, 1), grad_dout(gr, 0)));
    return gr->g->status;
}

static Status infer_cumprod_grad(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0), *dy = in_value(g, n, 2);

    if (x->dtype != dy->dtype || !shape_eq(x->shape, dy->shape))
        return FAIL(E_SHAPE, "%s: the gradient does not have type and shape of the input", node_text(g, n));
    return infer_cumsum(g, n);
}

/* Every placement passes, except a split along the axis. */
static Status place_cumprod(Placement *p)
{
    int axis;

    if (!value_const(p->g, p->node->in[1]))
        return place_all_b(p);
    TRY(cumulated_axis(p->g, p->node, &axis));
    for (int i = 0; i < p->node->n_in; i++)
        if (p->in[i].kind == PL_S && p->in[i].axis == axis)
            return place_all_b(p);
    return place_elementwise(p);
}

DEFINE_OP(CumProd, .since = 26, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_NUMERIC,
          .precision = PREC_WIDE,
          .attrs = (const AttrDecl[]){ { "exclusive", A_INT, .i = 0 }, { "reverse", A_INT, .i = 0 }, { 0 } },
          .infer = infer_cumsum, .grad = grad_cumprod, .place = place_cumprod, .doc = "running products along axis");

/* The same formula, one Gather for each index of the axis.  exclusive: x[i] is no factor of y[i], so R[i] = R of i + 1.
 */
static Status standard_cumprod_grad(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const int64_t reverse = node_int(n, "reverse"), exclusive = node_int(n, "exclusive");
    ValueId *row, before, rest = NO_VALUE, r;
    int64_t size;
    int axis;

    if (!value_const(g, n->in[1]))
        return ST_OK;
    TRY(cumulated_axis(g, n, &axis));
    size = x->shape->dim[axis];
    if (!shape_numel(x->shape))
        return ST_OK;
    if (!(row = ARENA_NEW(g->arena, ValueId, size)))
        return FAIL_NOMEM();
    before = EMIT(g, CumProd, ATTRS(INT("exclusive", 1), INT("reverse", reverse)), n->in[0], n->in[1]);
    for (int64_t k = size - 1; k >= 0 && !g->status; k--) {
        const int64_t i = reverse ? size - 1 - k : k;
        const ValueId at = emit_ints(g, 1, &i);
        const Attr *along = ATTRS(INT("axis", axis));
        const ValueId dy = EMIT(g, Gather, along, n->in[2], at), x_at = EMIT(g, Gather, along, n->in[0], at);

        r = !has_value(rest) ? (exclusive ? emit_zeros_like(g, dy) : dy)
            : exclusive      ? rest
                             : EMIT(g, Add, NULL, dy, rest);
        row[i] = EMIT(g, Mul, NULL, EMIT(g, Gather, along, before, at), r);
        rest = EMIT(g, Mul, NULL, x_at, r);
        if (exclusive)
            rest = EMIT(g, Add, NULL, rest, dy);
    }
    TRY(g->status);
    graph_replace(g, n->out[0], size == 1 ? row[0] : emit(g, &op_Concat, ATTRS(INT("axis", axis)), (int)size, row));
    return g->status;
}

DEFINE_OP(CumProdGrad, .domain = "dpexec", .since = 1, .in_min = 3, .in_max = 3, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT, .precision = PREC_WIDE,
          .attrs = (const AttrDecl[]){ { "exclusive", A_INT, .i = 0 }, { "reverse", A_INT, .i = 0 }, { 0 } },
          .infer = infer_cumprod_grad, .standard = standard_cumprod_grad, .place = place_cumprod,
          .doc = "gradient of CumProd, from (x, axis, dy)");
