/* LpNormalization and MeanVarianceNormalization. */
#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

static Status infer_lp(Graph *g, Node *n)
{
    const int64_t p = node_int(n, "p");

    if (p != 1 && p != 2)
        return FAIL(E_MODEL, "%s: p is %lld, expected 1 or 2", node_text(g, n), (long long)p);
    TRY(infer_axis(g, n, in_value(g, n, 0)->shape->rank));
    return infer_like(g, n, 0);
}

/* x / norm, 0 where the norm is 0. */
static Status lower_lp(Graph *g, Node *n)
{
    const DType t = in_value(g, n, 0)->dtype;
    const Attr *kept = ATTRS(INT("keepdims", 1));
    ValueId axes = emit_ints(g, 1, (int64_t[]){ node_int(n, "axis") }), norm, is_zero, y;

    norm = node_int(n, "p") == 1 ? EMIT(g, ReduceL1, kept, n->in[0], axes) : EMIT(g, ReduceL2, kept, n->in[0], axes);
    is_zero = EMIT(g, Equal, NULL, norm, emit_scalar(g, t, 0));
    norm = EMIT(g, Where, NULL, is_zero, emit_scalar(g, t, 1), norm);
    y = EMIT(g, Div, NULL, n->in[0], norm);
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

DEFINE_OP(LpNormalization, .since = 22, .from = 1, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .i = -1, .range = R_AXIS }, { "p", A_INT, .i = 2 }, { 0 } },
          .doc = "x over its norm along axis", .infer = infer_lp, .lower = lower_lp);

static Status infer_mvn(Graph *g, Node *n)
{
    int count, axis;
    const int64_t *axes = node_ints(n, "axes", &count);

    for (int i = 0; i < count; i++)
        TRY(shape_axis(&axis, axes[i], in_value(g, n, 0)->shape->rank, node_text(g, n)));
    if (!count && in_value(g, n, 0)->shape->rank != 4)
        return FAIL(E_SHAPE, "%s: without axes expected an input of rank 4, found %d", node_text(g, n),
                    in_value(g, n, 0)->shape->rank);
    return infer_like(g, n, 0);
}

/* (x - mean) / (sqrt(mean of (x - mean)^2) + 1e-9); the constant is that of ONNX's function body. */
static Status lower_mvn(Graph *g, Node *n)
{
    const DType t = in_value(g, n, 0)->dtype;
    const Attr *kept = ATTRS(INT("keepdims", 1));
    int count;
    const int64_t *given = node_ints(n, "axes", &count);
    ValueId axes = count ? emit_ints(g, count, given) : emit_ints(g, 3, (int64_t[]){ 0, 2, 3 });
    ValueId x = EMIT(g, Sub, NULL, n->in[0], EMIT(g, ReduceMean, kept, n->in[0], axes)), deviation, y;

    deviation = EMIT(g, Sqrt, NULL, EMIT(g, ReduceMean, kept, EMIT(g, Mul, NULL, x, x), axes));
    y = EMIT(g, Div, NULL, x, EMIT(g, Add, NULL, deviation, emit_scalar(g, t, 1e-9)));
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

DEFINE_OP(MeanVarianceNormalization, .since = 13, .from = 9, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT, .flags = OPF_NORM,
          .attrs = (const AttrDecl[]){ { "axes", A_INTS, .range = R_AXIS }, { 0 } },
          .doc = "(x - mean) / deviation over axes, [0, 2, 3] without any", .infer = infer_mvn, .lower = lower_mvn);
