/* Windows of signal processing (HannWindow, HammingWindow, BlackmanWindow): sums of cosines over `size` positions, one
 * period or, if symmetric, from end to end; and MelWeightMatrix: weights of a spectrum in bands of equal width on the
 * mel scale. */
#include <math.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"

static Status windows_infer(Graph *g, Node *n)
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
            return FAIL(E_SHAPE, "%s: a size of %lld, expected 0 or more", node_text(g, n), (long long)v[0]);
        y = SHAPE(v[0]);
    }
    set_out(g, n, 0, t, &y);
    return g->status;
}

/* a - b cos(2 pi i / N) + c cos(4 pi i / N), N the size, or one less if symmetric.  A size that depends on data is not
 * lowered, since infer has not checked it. */
static Status cosines(Graph *g, Node *n, double a, double b, double c)
{
    const DType to = (DType)node_int(n, "output_datatype"), t = to == DT_FLOAT64 ? to : DT_FLOAT32;
    const double pi = 3.14159265358979323846;
    const Shape one = shape_scalar();
    ValueId size, places, angle, y;

    if (!value_const(g, n->in[0]))
        return ST_OK;
    size = emit_cast(g, n->in[0], DT_INT64);
    size = EMIT(g, Reshape, NULL, size, emit_shape_const(g, &one));
    places = emit_scalar(g, DT_INT64, 0);
    places = emit_cast(g, EMIT(g, Range, NULL, places, size, emit_scalar(g, DT_INT64, 1)), t);
    size = emit_cast(g, size, t);
    if (!node_int(n, "periodic"))
        size = EMIT(g, Sub, NULL, size, emit_scalar(g, t, 1));
    angle = EMIT(g, Div, NULL, EMIT(g, Mul, NULL, places, emit_scalar(g, t, 2 * pi)), size);
    y = EMIT(g, Cos, NULL, angle);
    y = EMIT(g, Mul, NULL, y, emit_scalar(g, t, b));
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
    .infer = windows_infer

DEFINE_OP(HannWindow, WINDOW, .lower = lower_hann, .doc = "0.5 - 0.5 cos(2 pi i / N)");
DEFINE_OP(HammingWindow, WINDOW, .lower = lower_hamming, .doc = "25/46 - 21/46 cos(2 pi i / N)");
DEFINE_OP(BlackmanWindow, WINDOW, .lower = lower_blackman, .doc = "0.42 - 0.5 cos(2 pi i / N) + 0.08 cos(4 pi i / N)");

/* ---- MelWeightMatrix: [dft_length / 2 + 1, bands] ---- */

enum { MEL_BANDS, MEL_LENGTH, MEL_RATE, MEL_FROM, MEL_TO, MEL_INPUTS };
enum { MEL_MAX_ELEMENTS = 1 << 26 };

static Status mel_shape(Shape *out, const Graph *g, const Node *n)
{
    const Tensor *bands = value_const(g, n->in[MEL_BANDS]), *length = value_const(g, n->in[MEL_LENGTH]);

    for (int i = 0; i < MEL_INPUTS; i++)
        if (shape_numel(in_value(g, n, i)->shape) != 1)
            return FAIL(E_SHAPE, "%s: input %d must be one number", node_text(g, n), i);
    *out = shape_unknown();
    if (!bands || !length)
        return ST_OK;
    if (tensor_int(bands, 0) < 0 || tensor_int(length, 0) < 0 || tensor_int(bands, 0) > MEL_MAX_ELEMENTS ||
        (tensor_int(length, 0) / 2 + 1) > MEL_MAX_ELEMENTS / (tensor_int(bands, 0) + 1))
        return FAIL(E_UNSUPPORTED, "%s: %lld bands of a transform of length %lld are not supported", node_text(g, n),
                    (long long)tensor_int(bands, 0), (long long)tensor_int(length, 0));
    *out = SHAPE(tensor_int(length, 0) / 2 + 1, tensor_int(bands, 0));
    return ST_OK;
}

static Status infer_mel(Graph *g, Node *n)
{
    Shape y;

    TRY(mel_shape(&y, g, n));
    set_out(g, n, 0, (DType)node_int(n, "output_datatype"), &y);
    return g->status;
}

static double mel(double hertz) { return 2595 * log10(1 + hertz / 700); }

/* Index in the spectrum of edge i of the bands. */
static double mel_edge(const Tensor *const in[MEL_INPUTS], int64_t i)
{
    const double from = mel(tensor_float(in[MEL_FROM], 0)), to = mel(tensor_float(in[MEL_TO], 0));
    const double at = from + (double)i * (to - from) / (double)(tensor_int(in[MEL_BANDS], 0) + 2);

    return floor((double)(tensor_int(in[MEL_LENGTH], 0) + 1) * 700 * (pow(10, at / 2595) - 1) /
                 (double)tensor_int(in[MEL_RATE], 0));
}

/* Writes a triangle that is 1 at its middle edge. */
static void mel_band(float *y, int64_t bands, int64_t left, int64_t middle, int64_t right)
{
    for (int64_t j = left; j < middle; j++)
        y[j * bands] = (float)(j - left) / (float)(middle - left);
    y[middle * bands] = 1;
    for (int64_t j = middle; j < right; j++)
        y[j * bands] = (float)(right - j) / (float)(right - middle);
}

static Status lower_mel(Graph *g, Node *n)
{
    const Tensor *in[MEL_INPUTS];
    Shape s;
    Tensor *y;

    for (int i = 0; i < MEL_INPUTS; i++)
        if (!(in[i] = value_const(g, n->in[i])))
            return ST_OK;
    TRY(mel_shape(&s, g, n));
    if (!(y = tensor_create(g->arena, DT_FLOAT32, &s)))
        return FAIL_NOMEM();
    if (tensor_bytes(y))
        memset(y->data, 0, tensor_bytes(y));
    for (int64_t i = 0; i < s.dim[1]; i++) {
        const double left = mel_edge(in, i), middle = mel_edge(in, i + 1), right = mel_edge(in, i + 2);

        if (!(left >= 0 && left <= middle && middle <= right && right <= (double)s.dim[0]) ||
            middle >= (double)s.dim[0])
            return FAIL(E_MODEL, "%s: band %lld does not lie within the spectrum", node_text(g, n), (long long)i);
        mel_band((float *)y->data + i, s.dim[1], (int64_t)left, (int64_t)middle, (int64_t)right);
    }
    graph_replace(g, n->out[0],
                  EMIT(g, Cast, ATTRS(INT("to", node_int(n, "output_datatype"))), graph_add_const_nocopy(g, "mel", y)));
    return g->status;
}

DEFINE_OP(MelWeightMatrix, .since = 17, .in_min = 5, .in_max = 5, .out_min = 1, .out_max = 1,
          .dtypes = DTYPE_BIT(DT_INT32) | DTYPE_BIT(DT_INT64), .setting_in = 24,
          .attrs = (const AttrDecl[]){ { "output_datatype", A_INT, .i = DT_FLOAT32, .range = R_DTYPE }, { 0 } },
          .infer = infer_mel, .lower = lower_mel, .doc = "weights of a spectrum in bands of the mel scale");
