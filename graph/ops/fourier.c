/* DFT and STFT as products with matrices of cosines and sines.
 *
 * Along an axis of x [.., n, .., c], c = 1 (real) or 2 (real and imaginary part), N = dft_length, s = -1, or 1 for the
 * inverse, which is divided by N:
 *
 *   y[k] = sum_j x[j] exp(s 2 pi i j k / N),   j < N (x is padded with zeros, or truncated, to N)
 *
 * As a product of real matrices, the matrix is [n c, m d]: rows are the parts of the input's elements, columns those of
 * the output's.  With `onesided` the forward transform takes reals and gives the first N / 2 + 1 elements; the inverse
 * takes these (the others are their conjugates) and gives reals.  The gradient is that of MatMul. */
#include <math.h>

#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/fourier.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/view.gen.h"

enum { X, LENGTH, AXIS };

static const int64_t MAX_ELEMENTS = INT64_C(1) << 26; /* of a matrix */

typedef struct {
    int axis;
    int64_t size, n, c; /* N; the input's elements along the axis that are used, and its parts */
    int64_t m, d;       /* the output's elements along the axis, and its parts */
    bool inverse, onesided;
} Transform;

static Status fourier_read_number(const Graph *g, const Node *n, int i, const char *what, int64_t *out)
{
    int count;

    if (shape_numel(in_value(g, n, i)->shape) != 1)
        return FAIL(E_SHAPE, "%s: %s must be one number", node_text(g, n), what);
    return value_const_ints(g, n->in[i], out, 1, &count);
}

static bool fourier_is_known(const Graph *g, const Node *n, int from, int to)
{
    for (int i = from; i < to; i++)
        if (has_in(n, i) && !value_const(g, n->in[i]))
            return false;
    return true;
}

static Status check_parts(const Graph *g, const Node *n, const Shape *x, int rank_min, bool needs_real,
                          bool needs_complex)
{
    const int64_t c = x->rank ? x->dim[x->rank - 1] : 0;
    char text[SHAPE_TEXT];

    if (x->rank < rank_min || c < 1 || c > 2 || (needs_real && c == 2) || (needs_complex && c == 1))
        return FAIL(E_SHAPE, "%s: input %s, expected a last axis of %s", node_text(g, n), shape_text(x, text),
                    needs_real      ? "1, a real part"
                    : needs_complex ? "2, real and imaginary part"
                                    : "1 or 2");
    return ST_OK;
}

static Status read_transform(Transform *t, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, X)->shape;
    int64_t axis = -2;

    *t = (Transform){ .inverse = node_int(n, "inverse") != 0, .onesided = node_int(n, "onesided") != 0 };
    TRY(check_parts(g, n, x, 2, t->onesided && !t->inverse, t->onesided && t->inverse));
    if (has_in(n, AXIS))
        TRY(fourier_read_number(g, n, AXIS, "axis", &axis));
    TRY(shape_axis(&t->axis, axis, x->rank, node_text(g, n)));
    if (t->axis == x->rank - 1)
        return FAIL(E_SHAPE, "%s: axis %d holds real and imaginary part, expected another", node_text(g, n), t->axis);
    t->c = x->dim[x->rank - 1];
    t->n = x->dim[t->axis];
    t->size = t->inverse && t->onesided ? 2 * (t->n - 1) : t->n;
    if (has_in(n, LENGTH))
        TRY(fourier_read_number(g, n, LENGTH, "dft_length", &t->size));
    if (t->size < 1 || t->size > INT32_MAX)
        return FAIL(E_SHAPE, "%s: dft_length %lld, expected 1 to %d", node_text(g, n), (long long)t->size, INT32_MAX);
    t->d = t->inverse && t->onesided ? 1 : 2;
    t->m = t->onesided && !t->inverse ? t->size / 2 + 1 : t->size;
    t->n = t->inverse && t->onesided && t->n > t->size / 2 + 1 ? t->size / 2 + 1 : t->n > t->size ? t->size : t->n;
    return ST_OK;
}

static Status infer_dft(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, X);
    Shape y = shape_unknown();
    Transform t;

    if (fourier_is_known(g, n, LENGTH, AXIS + 1)) {
        TRY(read_transform(&t, g, n));
        y = *x->shape;
        y.dim[t.axis] = t.m;
        y.dim[y.rank - 1] = t.d;
        TRY(shape_check(&y, sizeof(double)));
    }
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

/* Entry of the matrix: the coefficient of part `of` (0: real, 1: imaginary) of x[j] in part `part` of y[k]. */
static double fourier_entry(const Transform *t, int64_t j, int of, int64_t k, int part)
{
    const double pi = 3.14159265358979323846,
                 angle = 2 * pi * (double)(j * k % t->size) / (double)t->size * (t->inverse ? 1 : -1);
    double scale = t->inverse ? 1 / (double)t->size : 1;

    if (t->inverse && t->onesided && j && 2 * j != t->size)
        scale *= 2;
    return scale * (of == part ? cos(angle) : of ? -sin(angle) : sin(angle));
}

/* The matrix [n c, m d]. */
static ValueId emit_matrix(Graph *g, const Transform *t, DType type)
{
    const Shape s = SHAPE(t->n * t->c, t->m * t->d);
    Tensor *w = tensor_create(g->arena, type, &s);
    int64_t i = 0;

    if (!w) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t row = 0; row < s.dim[0]; row++)
        for (int64_t column = 0; column < s.dim[1]; column++)
            tensor_set_float(w, i++,
                             fourier_entry(t, row / t->c, (int)(row % t->c), column / t->d, (int)(column % t->d)));
    return graph_add_const_nocopy(g, "frequencies", w);
}

/* Moves the axis to the last but one place, or back from there. */
static ValueId move_axis(Graph *g, ValueId x, int rank, int axis, bool back)
{
    int64_t perm[MAX_RANK], inverse[MAX_RANK];
    int count = 0;

    if (axis == rank - 2)
        return x;
    for (int a = 0; a < rank - 1; a++)
        if (a != axis)
            perm[count++] = a;
    perm[count++] = axis;
    perm[count] = rank - 1;
    for (int a = 0; a < rank; a++)
        inverse[perm[a]] = a;
    return emit_transpose(g, x, rank, back ? inverse : perm);
}

static Status lower_dft(Graph *g, Node *n)
{
    const Shape x = *in_value(g, n, X)->shape;
    const DType type = in_value(g, n, X)->dtype, wide = type == DT_FLOAT64 ? type : DT_FLOAT32;
    Shape flat, part;
    ValueId y = n->in[X];
    Transform t;

    if (!fourier_is_known(g, n, LENGTH, AXIS + 1))
        return FAIL(E_UNSUPPORTED, "%s: dft_length or axis depends on data, expected constants", node_text(g, n));
    TRY(read_transform(&t, g, n));
    if (t.m > MAX_ELEMENTS || t.n * t.c > MAX_ELEMENTS / (t.m * t.d))
        return FAIL(E_UNSUPPORTED, "%s: %lld elements to %lld, expected a matrix of up to %lld entries",
                    node_text(g, n), (long long)t.n, (long long)t.m, (long long)MAX_ELEMENTS);
    if (t.n < x.dim[t.axis])
        y = emit_slice(g, y, t.axis, 0, t.n);
    y = move_axis(g, emit_cast(g, y, wide), x.rank, t.axis, false);
    TRY(g->status);
    part = *value(g, y)->shape;
    flat = part;
    flat.rank--;
    flat.dim[flat.rank - 1] = t.n * t.c;
    y = emit_reshape(g, y, &flat);
    y = EMIT(g, MatMul, NULL, y, emit_matrix(g, &t, wide));
    part.dim[part.rank - 2] = t.m;
    part.dim[part.rank - 1] = t.d;
    y = emit_cast(g, move_axis(g, emit_reshape(g, y, &part), x.rank, t.axis, true), type);
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

/* In opset 17 the axis is an attribute with another default. */
static Status import_dft(Graph *g, Node *n, int opset)
{
    if (opset >= 20)
        return ST_OK;
    if (!node_attr(n, "axis"))
        node_set_int(g, n, "axis", 1);
    TRY(import_attr_to_input(g, n, "axis", AXIS));
    return g->status;
}

DEFINE_OP(DFT, .since = 20, .in_min = 1, .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ { "inverse", A_INT, .i = 0 }, { "onesided", A_INT, .i = 0 }, { 0 } },
          .import = import_dft, .infer = infer_dft, .lower = lower_dft, .doc = "discrete Fourier transform along axis");

/* ---- STFT ---- */

enum { SIGNAL, STEP, WINDOW, FRAME };

/* Reads the frames: each `size` elements, every `step` elements.  A signal without the axis of parts is real: PyTorch's
 * older exporter writes it, and ONNX Runtime accepts it. */
static Status read_frames(int64_t *frames, int64_t *size, int64_t *step, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, SIGNAL)->shape, *w = has_in(n, WINDOW) ? in_value(g, n, WINDOW)->shape : NULL;
    char text[SHAPE_TEXT];

    if (x->rank != 2 && (x->rank != 3 || x->dim[2] < 1 || x->dim[2] > 2))
        return FAIL(E_SHAPE, "%s: signal %s, expected [batch, length, 1 or 2], or [batch, length] of reals",
                    node_text(g, n), shape_text(x, text));
    if (!w && !has_in(n, FRAME))
        return FAIL(E_MODEL, "%s: neither window nor frame_length", node_text(g, n));
    if (w && w->rank != 1)
        return FAIL(E_SHAPE, "%s: the window is %s, expected one axis", node_text(g, n), shape_text(w, text));
    TRY(fourier_read_number(g, n, STEP, "frame_step", step));
    *size = w ? w->dim[0] : 0;
    if (has_in(n, FRAME))
        TRY(fourier_read_number(g, n, FRAME, "frame_length", size));
    if (*step < 1 || *size < 1 || *size > x->dim[1] || (w && w->dim[0] != *size))
        return FAIL(E_SHAPE, "%s: frames of %lld every %lld, a window %s and a signal %s do not go together",
                    node_text(g, n), (long long)*size, (long long)*step, w ? shape_text(w, text) : "of none",
                    shape_text(x, (char[SHAPE_TEXT]){ 0 }));
    if (x->rank == 3 && x->dim[2] == 2 && node_int(n, "onesided"))
        return FAIL(E_SHAPE, "%s: a complex signal has no onesided transform", node_text(g, n));
    *frames = (x->dim[1] - *size) / *step + 1;
    return ST_OK;
}

static bool frames_known(const Graph *g, const Node *n)
{
    return fourier_is_known(g, n, STEP, STEP + 1) && fourier_is_known(g, n, FRAME, FRAME + 1);
}

static Status infer_stft(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, SIGNAL);
    int64_t frames, size, step;
    Shape y = shape_unknown();

    if (has_in(n, WINDOW) && in_value(g, n, WINDOW)->dtype != x->dtype)
        return FAIL(E_SHAPE, "%s: the window is %s, expected %s", node_text(g, n),
                    dtype_name(in_value(g, n, WINDOW)->dtype), dtype_name(x->dtype));
    if (frames_known(g, n)) {
        TRY(read_frames(&frames, &size, &step, g, n));
        y = SHAPE(x->shape->dim[0], frames, node_int(n, "onesided") ? size / 2 + 1 : size, 2);
        TRY(shape_check(&y, sizeof(double)));
    }
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

/* [frames, size]: the position in the signal of each element of each frame. */
static ValueId emit_frames(Graph *g, int64_t frames, int64_t size, int64_t step)
{
    const Shape s = SHAPE(frames, size);
    Tensor *at;

    if (frames > MAX_ELEMENTS / size) {
        g->status = FAIL(E_UNSUPPORTED, "STFT: %lld frames of %lld, expected up to %lld elements", (long long)frames,
                         (long long)size, (long long)MAX_ELEMENTS);
        return NO_VALUE;
    }
    if (!(at = tensor_create(g->arena, DT_INT64, &s))) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < frames * size; i++)
        tensor_set_int(at, i, i / size * step + i % size);
    return graph_add_const_nocopy(g, "frames", at);
}

static Status lower_stft(Graph *g, Node *n)
{
    int64_t frames, size, step;
    ValueId y, window;

    if (!frames_known(g, n))
        return FAIL(E_UNSUPPORTED, "%s: frame_step or frame_length depends on data, expected constants",
                    node_text(g, n));
    TRY(read_frames(&frames, &size, &step, g, n));
    y = n->in[SIGNAL];
    if (in_value(g, n, SIGNAL)->shape->rank == 2)
        y = EMIT(g, Unsqueeze, NULL, y, emit_ints(g, 1, (int64_t[]){ 2 }));
    y = EMIT(g, Gather, ATTRS(INT("axis", 1)), y, emit_frames(g, frames, size, step));
    if (has_in(n, WINDOW)) {
        window = EMIT(g, Unsqueeze, NULL, n->in[WINDOW], emit_ints(g, 1, (int64_t[]){ 1 }));
        y = EMIT(g, Mul, NULL, y, window);
    }
    y = EMIT(g, DFT, ATTRS(INT("onesided", node_int(n, "onesided") != 0)), y);
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

DEFINE_OP(STFT, .since = 17, .in_min = 2, .in_max = 4, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ { "onesided", A_INT, .i = 1 }, { 0 } }, .infer = infer_stft, .lower = lower_stft,
          .doc = "Fourier transforms of frames of a signal");
