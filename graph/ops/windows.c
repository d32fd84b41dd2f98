/* The windows of signal processing: sums of cosines over `size` places, one period or, where they are symmetric, from
 * end to end. */
#include "graph/emit.h"
#include "graph/op.h"
#include "graph/place.h"

static Status infer(Graph *g, Node *n)
{
    const Value *size = in_value(g, n, 0);
    const DType t = (DType)node_int(n, "output_datatype");
    Shape y = shape_unknown();
    int64_t v[1];
    int count;

    if (shape_numel(size->shape) != 1)
        return FAIL(E_SHAPE, "%s: size must be one number", node_text(g, n));
    if (value_const(g, n->in[0])) {
        TRY(value_const_ints(g, n->in[0], v, 1, &count));
        if (v[0] < 0)
            return FAIL(E_SHAPE, "%s: a negative size", node_text(g, n));
        y = SHAPE(v[0]);
    }
    set_out(g, n, 0, t, &y);
    return g->status;
}

/* a - b cos(2 pi i / N) + c cos(4 pi i / N), N the size, or one less. */
static Status cosines(Graph *g, Node *n, double a, double b, double c)
{
    const DType to = (DType)node_int(n, "output_datatype"), t = to == DT_FLOAT64 ? to : DT_FLOAT32;
    const double pi = 3.14159265358979323846;
    const Shape one = shape_scalar();
    ValueId size = EMIT(g, Reshape, NULL, emit_cast(g, n->in[0], DT_INT64), emit_shape_const(g, &one)), places, angle,
            y;

    places = emit_cast(g, EMIT(g, Range, NULL, emit_scalar(g, DT_INT64, 0), size, emit_scalar(g, DT_INT64, 1)), t);
    size = emit_cast(g, size, t);
    if (!node_int(n, "periodic"))
        size = EMIT(g, Sub, NULL, size, emit_scalar(g, t, 1));
    angle = EMIT(g, Div, NULL, EMIT(g, Mul, NULL, places, emit_scalar(g, t, 2 * pi)), size);
    y = EMIT(g, Mul, NULL, EMIT(g, Cos, NULL, angle), emit_scalar(g, t, b));
    y = EMIT(g, Sub, NULL, emit_scalar(g, t, a), y);
    if (c != 0) {
        ValueId twice = EMIT(g, Cos, NULL, EMIT(g, Mul, NULL, angle, emit_scalar(g, t, 2)));

        y = EMIT(g, Add, NULL, y, EMIT(g, Mul, NULL, twice, emit_scalar(g, t, c)));
    }
    y = emit_cast(g, y, to);
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

static Status lower_hann(Graph *g, Node *n) { return cosines(g, n, 0.5, 0.5, 0); }

static Status lower_hamming(Graph *g, Node *n) { return cosines(g, n, 25.0 / 46, 21.0 / 46, 0); }

static Status lower_blackman(Graph *g, Node *n) { return cosines(g, n, 0.42, 0.5, 0.08); }

#define WINDOW                                                                                    \
    .since = 17, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,                            \
    .dtypes = DTYPE_BIT(DT_INT32) | DTYPE_BIT(DT_INT64),                                          \
    .attrs = (const AttrDecl[]){ { "output_datatype", A_INT, .i = DT_FLOAT32, .range = R_DTYPE }, \
                                 { "periodic", A_INT, .i = 1 },                                   \
                                 { 0 } },                                                         \
    .infer = infer

DEFINE_OP(HannWindow, WINDOW, .lower = lower_hann, .doc = "0.5 - 0.5 cos(2 pi i / N)");
DEFINE_OP(HammingWindow, WINDOW, .lower = lower_hamming, .doc = "25/46 - 21/46 cos(2 pi i / N)");
DEFINE_OP(BlackmanWindow, WINDOW, .lower = lower_blackman, .doc = "0.42 - 0.5 cos(2 pi i / N) + 0.08 cos(4 pi i / N)");
