/* LRN: y = x / (bias + alpha / size * sum x^2 over `size` neighbouring channels)^beta (Krizhevsky et al., 2012).
 *
 * AveragePool over a window of channels computes the mean of the neighbours' squares, padding included. */
#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/pool.gen.h"
#include "graph/ops/view.gen.h"

static Status lrn_infer(Graph *g, Node *n)
{
    if (in_value(g, n, 0)->shape->rank < 2)
        return FAIL(E_SHAPE, "%s: input of rank %d, expected [batch, channels, ...]", node_text(g, n),
                    in_value(g, n, 0)->shape->rank);
    return infer_like(g, n, 0);
}

static Status lrn_lower(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const int64_t size = node_int(n, "size"), channels = x->shape->dim[1],
                  rest = shape_count(x->shape, 2, x->shape->rank);
    const double alpha = node_float(n, "alpha"), beta = node_float(n, "beta"), bias = node_float(n, "bias");
    const DType t = x->dtype;
    const Attr *window = ATTRS(INTS("kernel_shape", 2, ((int64_t[]){ size, 1 })),
                               INTS("pads", 4, ((int64_t[]){ (size - 1) / 2, 0, size - 1 - (size - 1) / 2, 0 })),
                               INT("count_include_pad", 1));
    ValueId squares = EMIT(g, Mul, NULL, n->in[0], n->in[0]), mean, y;
    Shape back = *x->shape;

    back.dim[0] = 0; /* Reshape copies the input's size */
    squares = EMIT(g, Reshape, NULL, squares, emit_ints(g, 4, (int64_t[]){ 0, 1, channels, rest }));
    mean = EMIT(g, AveragePool, window, squares);
    mean = EMIT(g, Reshape, NULL, mean, emit_ints(g, back.rank, back.dim));
    y = EMIT(g, Mul, NULL, mean, emit_scalar(g, t, alpha));
    y = EMIT(g, Add, NULL, y, emit_scalar(g, t, bias));
    y = EMIT(g, Div, NULL, n->in[0], EMIT(g, Pow, NULL, y, emit_scalar(g, t, beta)));
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

DEFINE_OP(LRN, .since = 13, .from = 1, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ { "alpha", A_FLOAT, .f = 1e-4 },
                                       { "beta", A_FLOAT, .f = 0.75 },
                                       { "bias", A_FLOAT, .f = 1 },
                                       { "size", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
                                       { 0 } },
          .doc = "x over a power of the mean square of neighbouring channels", .infer = lrn_infer, .lower = lrn_lower);
