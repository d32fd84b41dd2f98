/* Quantised operators, forward only, lowered to the arithmetic that defines them.
 *
 * real = (quantised - zero_point) * scale.  Products of 8-bit integers are added exactly: in int32 for matrices, in
 * float64 for convolutions (sums stay far below 2^53).  Scales and zero points have one value for the tensor, for each
 * element of an axis, or for each block of an axis. */
#include "graph/ops/quantize.h"

#include <math.h>

#include "graph/ir/grad.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/conv.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"
#include "graph/ops/window.h"

/* ---- parameters ---- */

/* The axis along which a scale or zero point varies (-1: none); `block` consecutive elements share a value, the last
 * block may be smaller (0: no blocks). */
typedef struct {
    int axis;
    int64_t block;
} Along;

static Status along_of(Along *out, const Graph *g, const Node *n);

static int64_t blocks(int64_t count, int64_t size) { return count / size + (count % size != 0); }

static Status check_param(const Graph *g, const Node *n, int i, const Shape *x, Along along)
{
    const Shape *s = in_value(g, n, i)->shape;
    bool fits = shape_numel(s) == 1 && s->rank <= 1;

    if (!fits && s->rank == 1 && along.axis >= 0)
        fits = s->dim[0] == x->dim[along.axis];
    if (!fits && along.block > 0 && along.axis >= 0 && s->rank == x->rank && x->rank < MAX_RANK) {
        fits = s->dim[along.axis] == blocks(x->dim[along.axis], along.block);
        for (int k = 0; k < s->rank; k++)
            fits &= k == along.axis || s->dim[k] == x->dim[k];
    }
    if (!fits)
        return FAIL(E_SHAPE, "%s: input %d must be one value, one for each element of the axis, or one for each block",
                    node_text(g, n), i);
    return ST_OK;
}

/* Expands v of shape s, a value for each block of x, to x's shape. */
static ValueId blockwise(Graph *g, ValueId v, const Shape *s, const Shape *x, Along along)
{
    const int64_t count = x->dim[along.axis], size = along.block < count ? along.block : count;
    Shape wide = { 0 }, whole = *s;

    for (int k = 0; k < x->rank; k++) { /* repeats each block's value along a new axis after its own */
        wide.dim[wide.rank++] = s->dim[k];
        if (k == along.axis)
            wide.dim[wide.rank++] = 1;
    }
    v = emit_reshape(g, v, &wide);
    wide.dim[along.axis + 1] = size;
    whole.dim[along.axis] *= size;
    v = emit_reshape(g, emit_expand(g, v, &wide), &whole);
    return whole.dim[along.axis] == count ? v : emit_slice(g, v, along.axis, 0, count);
}

/* Parameter v cast to type `to` and reshaped to broadcast to x. */
static ValueId param(Graph *g, ValueId v, DType to, const Shape *x, Along along)
{
    Shape s = g->status ? shape_scalar() : *value(g, v)->shape, wide = { 0 }, flat = { .rank = x->rank };

    v = emit_cast(g, v, to);
    if (shape_numel(&s) == 1)
        return emit_reshape(g, v, &wide);
    if (s.rank == 1 && s.dim[0] == x->dim[along.axis]) {
        for (int k = 0; k < x->rank; k++)
            flat.dim[k] = k == along.axis ? s.dim[0] : 1;
        return emit_reshape(g, v, &flat);
    }
    return blockwise(g, v, &s, x, along);
}

ValueId quantiser_scale(Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    const Shape s = *x->shape;
    Along along;

    if (!g->status)
        g->status = along_of(&along, g, n);
    return g->status ? NO_VALUE : param(g, n->in[1], x->dtype, &s, along);
}

/* x - zero_point in type `to`. */
static ValueId centred(Graph *g, ValueId x, ValueId zero, DType to, Along along)
{
    Shape s = *value(g, x)->shape;

    x = emit_cast(g, x, to);
    return has_value(zero) ? EMIT(g, Sub, NULL, x, param(g, zero, to, &s, along)) : x;
}

/* Rounds half to even, adds the zero point and converts with saturation. */
static ValueId quantised(Graph *g, ValueId real_over_scale, ValueId zero, DType to, Along along, bool saturate)
{
    ValueId q = dtype_is_small_float(to) ? real_over_scale : EMIT(g, Round, NULL, real_over_scale);

    if (has_value(zero) && !g->status) {
        Shape s = *value(g, q)->shape;

        q = EMIT(g, Add, NULL, q, param(g, zero, value(g, q)->dtype, &s, along));
    }
    if (dtype_is_small_int(to) && !g->status) { /* their conversion keeps the lowest bits instead of saturating */
        const DType t = value(g, q)->dtype;
        const bool is_signed = to == DT_INT4 || to == DT_INT2;
        const double count = (double)(1 << dtype_bits(to)), low = is_signed ? -count / 2 : 0;
        const ValueId least = emit_scalar(g, t, low);

        q = EMIT(g, Clip, NULL, q, least, emit_scalar(g, t, low + count - 1));
    }
    return saturate ? emit_cast(g, q, to) : EMIT(g, Cast, ATTRS(INT("to", to), INT("saturate", 0)), q);
}

static ValueId optional(const Node *n, int i) { return has_in(n, i) ? n->in[i] : NO_VALUE; }

/* Are all shapes known?  If not, the node is not lowered, and a later error names it. */
static bool inputs_known(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_in(n, i) && !shape_known(in_value(g, n, i)->shape))
            return false;
    return true;
}

static Status check_same_type(const Graph *g, const Node *n, int i, DType t)
{
    if (has_in(n, i) && in_value(g, n, i)->dtype != t)
        return FAIL(E_SHAPE, "%s: zero point (input %d) is %s, expected %s", node_text(g, n), i,
                    dtype_name(in_value(g, n, i)->dtype), dtype_name(t));
    return ST_OK;
}

static Status check_float(const Graph *g, const Node *n, int i)
{
    if (!dtype_is_float(in_value(g, n, i)->dtype))
        return FAIL(E_SHAPE, "%s: scale (input %d) is %s, expected a float type", node_text(g, n), i,
                    dtype_name(in_value(g, n, i)->dtype));
    return ST_OK;
}

/* ---- QuantizeLinear, DequantizeLinear ---- */

/* Reads axis and block size; the axis is checked only if the scale is not a single value. */
static Status along_of(Along *out, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *s = in_value(g, n, 1)->shape;

    *out = (Along){ -1, node_int(n, "block_size") };
    if (shape_numel(s) == 1 && s->rank <= 1)
        return ST_OK;
    return shape_axis(&out->axis, node_int(n, "axis"), x->rank, node_text(g, n));
}

static Status infer_linear(Graph *g, Node *n, DType out, bool zero_is_input)
{
    const Value *x = in_value(g, n, 0);
    Along along;

    TRY(along_of(&along, g, n));
    TRY(check_float(g, n, 1));
    TRY(check_param(g, n, 1, x->shape, along));
    if (has_in(n, 2)) {
        TRY(check_same_type(g, n, 2, zero_is_input ? x->dtype : out));
        TRY(check_param(g, n, 2, x->shape, along));
    }
    if (!dtype_size(out) || out == DT_STRING)
        return FAIL(E_UNSUPPORTED, "%s: type %d (%s) is not supported", node_text(g, n), (int)out, dtype_name(out));
    set_out(g, n, 0, out, x->shape);
    return ST_OK;
}

static DType quantized_type(const Graph *g, const Node *n)
{
    return has_in(n, 2)                  ? in_value(g, n, 2)->dtype
           : node_int(n, "output_dtype") ? (DType)node_int(n, "output_dtype")
                                         : DT_UINT8;
}

/* The type to which x / scale is rounded.  A network in float64 rounds to float64. */
static DType division_type(const Graph *g, const Node *n)
{
    if (in_value(g, n, 0)->dtype == DT_FLOAT64)
        return DT_FLOAT64;
    return node_int(n, "precision") ? (DType)node_int(n, "precision") : in_value(g, n, 1)->dtype;
}

static Status infer_quantize(Graph *g, Node *n)
{
    DType t = quantized_type(g, n);

    if (dtype_size(t) && !dtype_is_int(t) && !dtype_is_small(t))
        return FAIL(E_UNSUPPORTED, "%s: quantisation to %s is not supported", node_text(g, n), dtype_name(t));
    TRY(infer_linear(g, n, t, false));
    if (!dtype_is_float(division_type(g, n)))
        return FAIL(E_UNSUPPORTED, "%s: precision %d (%s), expected a float type", node_text(g, n),
                    (int)division_type(g, n), dtype_name(division_type(g, n)));
    return ST_OK;
}

/* 16-bit floats are computed in float32. */
static DType working_type(DType t) { return t == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32; }

static Status lower_quantize(Graph *g, Node *n)
{
    Shape x = *in_value(g, n, 0)->shape;
    DType t = division_type(g, n);
    ValueId scale, ratio;
    Along along;

    if (!inputs_known(g, n))
        return ST_OK;
    TRY(along_of(&along, g, n));
    scale = param(g, n->in[1], t, &x, along);
    ratio = emit_cast(g, EMIT(g, Div, NULL, emit_cast(g, n->in[0], t), scale), working_type(t));
    graph_replace(g, n->out[0],
                  quantised(g, ratio, optional(n, 2), quantized_type(g, n), along, node_int(n, "saturate") != 0));
    return g->status;
}

static DType dequantized_type(const Graph *g, const Node *n)
{
    return node_int(n, "output_dtype") ? (DType)node_int(n, "output_dtype") : in_value(g, n, 1)->dtype;
}

static Status infer_dequantize(Graph *g, Node *n) { return infer_linear(g, n, dequantized_type(g, n), true); }

static Status lower_dequantize(Graph *g, Node *n)
{
    Shape x = *in_value(g, n, 0)->shape;
    DType t = working_type(in_value(g, n, 1)->dtype);
    ValueId real, scale;
    Along along;

    if (!inputs_known(g, n))
        return ST_OK;
    TRY(along_of(&along, g, n));
    real = centred(g, n->in[0], optional(n, 2), t, along);
    scale = param(g, n->in[1], t, &x, along);
    graph_replace(g, n->out[0], emit_cast(g, EMIT(g, Mul, NULL, real, scale), dequantized_type(g, n)));
    return g->status;
}

/* Before opset 23 the division's type did not depend on the scale's: float32, as in ONNX Runtime. */
static Status import_quantize(Graph *g, Node *n, int opset)
{
    if (opset < 23 && !node_attr(n, "precision"))
        node_set_int(g, n, "precision", DT_FLOAT32);
    return g->status;
}

/* Opset 13 added axis, opset 19 saturate, opset 21 block_size. */
static bool quantize_respell(Graph *g, Node *n, int opset)
{
    return (opset >= 21 || respell_without(g, n, "block_size")) && (opset >= 19 || respell_without(g, n, "saturate")) &&
           (opset >= 13 || respell_without(g, n, "axis"));
}

/* Opset 21 added output_dtype, opset 23 precision. */
static bool respell_quantize(Graph *g, Node *n, int opset)
{
    if (division_type(g, n) != DT_FLOAT32 || (opset < 21 && !respell_without(g, n, "output_dtype")))
        return false;
    node_remove_attr(g, n, "precision");
    return quantize_respell(g, n, opset);
}

static bool respell_dequantize(Graph *g, Node *n, int opset)
{
    return respell_without(g, n, "output_dtype") && quantize_respell(g, n, opset);
}

#define LINEAR .setting_in = 6, .since = 23, .in_min = 2, .in_max = 3, .out_min = 1, .out_max = 1, .grad = grad_none
#define LINEAR_ATTRS                                                                         \
    { "axis", A_INT, .i = 1, .range = R_AXIS }, { "block_size", A_INT, .range = R_NATURAL }, \
    {                                                                                        \
        "output_dtype", A_INT, .range = R_STORED                                             \
    }

DEFINE_OP(QuantizeLinear, LINEAR, .dtypes = DTYPES_FLOAT | DTYPE_BIT(DT_INT32), .infer = infer_quantize,
          .lower = lower_quantize, .import = import_quantize, .respell = respell_quantize,
          .attrs = (const AttrDecl[]){ LINEAR_ATTRS,
                                       { "saturate", A_INT, .i = 1 },
                                       { "precision", A_INT, .range = R_DTYPE },
                                       { 0 } },
          .doc = "round(x / scale) + zero_point, saturated");
DEFINE_OP(DequantizeLinear, LINEAR, .dtypes = DTYPES_INT | DTYPES_SMALL, .infer = infer_dequantize,
          .lower = lower_dequantize, .respell = respell_dequantize, .attrs = (const AttrDecl[]){ LINEAR_ATTRS, { 0 } },
          .doc = "(x - zero_point) * scale");

/* ---- the range of a QuantizeLinear ---- */

static Status infer_range(Graph *g, Node *n)
{
    Along along;

    TRY(along_of(&along, g, n));
    TRY(check_float(g, n, 1));
    TRY(check_param(g, n, 1, in_value(g, n, 0)->shape, along));
    if (has_in(n, 2))
        TRY(check_param(g, n, 2, in_value(g, n, 0)->shape, along));
    set_out(g, n, 0, DT_BOOL, in_value(g, n, 0)->shape);
    return ST_OK;
}

static Status lower_range(Graph *g, Node *n)
{
    const DType t = division_type(g, n), working = working_type(t);
    Shape x = *in_value(g, n, 0)->shape;
    ValueId q, low;
    Along along;

    if (!inputs_known(g, n))
        return ST_OK;
    TRY(along_of(&along, g, n));
    q = emit_cast(g, n->in[0], t);
    q = EMIT(g, Div, NULL, q, param(g, n->in[1], t, &x, along));
    q = EMIT(g, Round, NULL, emit_cast(g, q, working));
    if (has_in(n, 2))
        q = EMIT(g, Add, NULL, q, param(g, n->in[2], working, &x, along));
    low = EMIT(g, GreaterOrEqual, NULL, q, emit_scalar(g, working, node_float(n, "low")));
    q = EMIT(g, LessOrEqual, NULL, q, emit_scalar(g, working, node_float(n, "high")));
    graph_replace(g, n->out[0], EMIT(g, And, NULL, low, q));
    return g->status;
}

DEFINE_OP(QuantizesWithin, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 3, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT, .infer = infer_range, .lower = lower_range, .grad = grad_none,
          .attrs = (const AttrDecl[]){ LINEAR_ATTRS,
                                       { "precision", A_INT, .range = R_DTYPE },
                                       { "low", A_FLOAT, .f = 0 },
                                       { "high", A_FLOAT, .f = 0 },
                                       { 0 } },
          .doc = "(x, scale, zero point): low <= round(x / scale) + zero point <= high");

/* ---- constants ---- */

/* Index of the parameter's element for element i of x. */
static int64_t param_at(const Shape *p, const Shape *x, Along along, int64_t i)
{
    int64_t inner = 1, at = 0, stride = 1;

    if (shape_numel(p) == 1)
        return 0;
    for (int k = along.axis + 1; k < x->rank; k++)
        inner *= x->dim[k];
    if (p->rank == 1)
        return i / inner % x->dim[along.axis];
    for (int k = x->rank; k-- > 0; i /= x->dim[k]) {
        const int64_t place = i % x->dim[k];

        at += (k == along.axis ? place / along.block : place) * stride;
        stride *= p->dim[k];
    }
    return at;
}

static double zero_at(const Graph *g, const Node *n, const Shape *x, Along along, int64_t i)
{
    const Tensor *zero = in_const(g, n, 2);

    return zero ? tensor_float(zero, param_at(&zero->shape, x, along, i)) : 0;
}

Status quantize_constant(Tensor **out, Arena *a, const Graph *g, const Node *n)
{
    const Tensor *x = in_const(g, n, 0), *scale = in_const(g, n, 1);
    const DType t = quantized_type(g, n);
    double range[2];
    Along along;
    Tensor *q;

    TRY(along_of(&along, g, n));
    quantized_range(range, t);
    if (!(q = tensor_create(a, t, &x->shape)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < tensor_numel(x); i++) {
        const double s = tensor_float(scale, param_at(&scale->shape, &x->shape, along, i)), v = tensor_float(x, i) / s;
        double r = rint(division_type(g, n) == DT_FLOAT64 ? v : (float)v) + zero_at(g, n, &x->shape, along, i);

        r = r < range[0] ? range[0] : r > range[1] ? range[1] : r;
        tensor_set_int(q, i, isnan(r) ? 0 : (int64_t)r);
    }
    *out = q;
    return ST_OK;
}

Status dequantize_constant(Tensor **out, Arena *a, const Graph *g, const Node *n, const Tensor *q)
{
    const Tensor *scale = in_const(g, n, 1);
    Along along;
    Tensor *x;

    TRY(along_of(&along, g, n));
    if (!(x = tensor_create(a, working_type(dequantized_type(g, n)), &q->shape)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < tensor_numel(q); i++)
        tensor_set_float(x, i,
                         (tensor_float(q, i) - zero_at(g, n, &q->shape, along, i)) *
                             tensor_float(scale, param_at(&scale->shape, &q->shape, along, i)));
    *out = x;
    return ST_OK;
}

/* ---- DynamicQuantizeLinear ---- */

static Status infer_dynamic(Graph *g, Node *n)
{
    Shape scalar = shape_scalar();

    set_out(g, n, 0, DT_UINT8, in_value(g, n, 0)->shape);
    set_out(g, n, 1, DT_FLOAT32, &scalar);
    set_out(g, n, 2, DT_UINT8, &scalar);
    return ST_OK;
}

/* Extends the range to contain 0 and divides it into 255 steps.  If all is 0, the scale is 1, as in ONNX Runtime. */
static Status lower_dynamic(Graph *g, Node *n)
{
    const Attr *all = ATTRS(INT("keepdims", 0));
    ValueId x = n->in[0], none, steps, low, high, width, no_range, scale, zero;
    bool empty;

    if (!inputs_known(g, n))
        return ST_OK;
    none = emit_scalar(g, DT_FLOAT32, 0);
    steps = emit_scalar(g, DT_FLOAT32, 255);
    empty = !g->status && shape_numel(value(g, x)->shape) == 0;
    low = empty ? none : EMIT(g, Min, NULL, EMIT(g, ReduceMin, all, x), none);
    high = empty ? none : EMIT(g, Max, NULL, EMIT(g, ReduceMax, all, x), none);
    width = EMIT(g, Sub, NULL, high, low);
    scale = EMIT(g, Div, NULL, width, steps);
    no_range = EMIT(g, Equal, NULL, width, none);
    scale = EMIT(g, Where, NULL, no_range, emit_scalar(g, DT_FLOAT32, 1), scale);
    zero = EMIT(g, Sub, NULL, none, EMIT(g, Div, NULL, low, scale));
    zero = emit_cast(g, EMIT(g, Round, NULL, EMIT(g, Clip, NULL, zero, none, steps)), DT_UINT8);
    graph_replace(g, n->out[0], quantised(g, EMIT(g, Div, NULL, x, scale), zero, DT_UINT8, (Along){ -1, 0 }, true));
    graph_replace(g, n->out[1], scale);
    graph_replace(g, n->out[2], zero);
    return g->status;
}

DEFINE_OP(DynamicQuantizeLinear, .since = 11, .in_min = 1, .in_max = 1, .out_min = 3, .out_max = 3,
          .dtypes = DTYPE_BIT(DT_FLOAT32), .infer = infer_dynamic, .grad = grad_none, .lower = lower_dynamic,
          .doc = "x in 8 bits, with the scale and zero point of its range");

/* ---- matrix products ---- */

#define DTYPES_8BIT (DTYPE_BIT(DT_INT8) | DTYPE_BIT(DT_UINT8))

static Status check_8bit(const Graph *g, const Node *n, int i)
{
    if (!(DTYPES_8BIT & DTYPE_BIT(in_value(g, n, i)->dtype)))
        return FAIL(E_SHAPE, "%s: input %d is %s, expected int8 or uint8", node_text(g, n), i,
                    dtype_name(in_value(g, n, i)->dtype));
    return ST_OK;
}

/* A's parameters vary along its rows, B's along its columns. */
static Along rows(const Graph *g, ValueId a) { return (Along){ value(g, a)->shape->rank - 2, 0 }; }
static Along columns(const Graph *g, ValueId b) { return (Along){ value(g, b)->shape->rank - 1, 0 }; }

static Status infer_matmul(Graph *g, Node *n, int b, int zero_a, int zero_b, DType out)
{
    const Shape *sa = in_value(g, n, 0)->shape, *sb = in_value(g, n, b)->shape;
    Shape ba, bb, y;

    TRY(check_8bit(g, n, b));
    if (sa->rank < 2 || sb->rank < 2 || sa->dim[sa->rank - 1] != sb->dim[sb->rank - 2])
        return FAIL(E_SHAPE, "%s: the inputs are not matrices that multiply", node_text(g, n));
    ba = shape_of(sa->rank - 2, sa->dim);
    bb = shape_of(sb->rank - 2, sb->dim);
    TRY(shape_broadcast(&y, &ba, &bb, node_text(g, n)));
    y.dim[y.rank++] = sa->dim[sa->rank - 2];
    y.dim[y.rank++] = sb->dim[sb->rank - 1];
    TRY(check_same_type(g, n, zero_a, in_value(g, n, 0)->dtype));
    TRY(check_same_type(g, n, zero_b, in_value(g, n, b)->dtype));
    if (has_in(n, zero_a))
        TRY(check_param(g, n, zero_a, sa, rows(g, n->in[0])));
    if (has_in(n, zero_b))
        TRY(check_param(g, n, zero_b, sb, columns(g, n->in[b])));
    set_out(g, n, 0, out, &y);
    return ST_OK;
}

static Status infer_matmul_integer(Graph *g, Node *n) { return infer_matmul(g, n, 1, 2, 3, DT_INT32); }

static ValueId integer_product(Graph *g, const Node *n, int b, int zero_a, int zero_b)
{
    ValueId left = centred(g, n->in[0], optional(n, zero_a), DT_INT32, rows(g, n->in[0]));
    ValueId right = centred(g, n->in[b], optional(n, zero_b), DT_INT32, columns(g, n->in[b]));

    return EMIT(g, MatMul, NULL, left, right);
}

static Status lower_matmul_integer(Graph *g, Node *n)
{
    if (inputs_known(g, n))
        graph_replace(g, n->out[0], integer_product(g, n, 1, 2, 3));
    return g->status;
}

DEFINE_OP(MatMulInteger, .since = 10, .in_min = 2, .in_max = 4, .out_min = 1, .out_max = 1, .dtypes = DTYPES_8BIT,
          .infer = infer_matmul_integer, .grad = grad_none, .lower = lower_matmul_integer,
          .doc = "(A - a_zero) (B - b_zero) in int32");

/* Inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero. */
static Status infer_qlinear_matmul(Graph *g, Node *n)
{
    Shape y;

    TRY(check_8bit(g, n, 7));
    TRY(infer_matmul(g, n, 3, 2, 5, in_value(g, n, 7)->dtype));
    y = *value(g, n->out[0])->shape;
    for (int i = 1; i < 7; i += i == 4 ? 2 : 3)
        TRY(check_float(g, n, i));
    TRY(check_param(g, n, 1, in_value(g, n, 0)->shape, rows(g, n->in[0])));
    TRY(check_param(g, n, 4, in_value(g, n, 3)->shape, columns(g, n->in[3])));
    TRY(check_param(g, n, 6, &y, rows(g, n->out[0])));
    return check_param(g, n, 7, &y, rows(g, n->out[0]));
}

/* Output = quantised(sum * scale_x * scale_w / scale_y) for operators with inputs x, scale, zero, w, scale, zero,
 * scale_y, zero_y.  `along`: the axis of x's and y's scales, `along_w`: that of w's. */
static Status rescale(Graph *g, Node *n, ValueId sum, Along along, Along along_w)
{
    Shape y = *value(g, n->out[0])->shape;
    ValueId scale_x = param(g, n->in[1], DT_FLOAT64, &y, along), scale_w = param(g, n->in[4], DT_FLOAT64, &y, along_w);
    ValueId scale_y = param(g, n->in[6], DT_FLOAT64, &y, along);
    ValueId real = EMIT(g, Mul, NULL, sum, EMIT(g, Mul, NULL, scale_x, scale_w));

    real = EMIT(g, Div, NULL, real, scale_y);
    graph_replace(g, n->out[0], quantised(g, real, n->in[7], value(g, n->out[0])->dtype, along, true));
    return g->status;
}

static Status lower_qlinear_matmul(Graph *g, Node *n)
{
    ValueId sum;

    if (!inputs_known(g, n))
        return ST_OK;
    sum = emit_cast(g, integer_product(g, n, 3, 2, 5), DT_FLOAT64);
    return rescale(g, n, sum, rows(g, n->out[0]), columns(g, n->out[0]));
}

DEFINE_OP(QLinearMatMul, .since = 21, .from = 10, .in_min = 8, .in_max = 8, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_8BIT, .infer = infer_qlinear_matmul, .grad = grad_none, .lower = lower_qlinear_matmul,
          .doc = "quantised product of quantised matrices");

/* ---- convolutions ---- */

static const AttrDecl conv_attrs[] = { { "group", A_INT, .i = 1, .range = R_POSITIVE },
                                       { "strides", A_INTS, .range = R_STEPS },
                                       { "pads", A_INTS, .range = R_PADS },
                                       { "dilations", A_INTS, .range = R_STEPS },
                                       AUTO_PAD,
                                       { "kernel_shape", A_INTS, .range = R_STEPS },
                                       { 0 } };

static Status infer_conv(Graph *g, Node *n, int w, int zero_x, int zero_w, DType out)
{
    const Shape *xs = in_value(g, n, 0)->shape, *ws = in_value(g, n, w)->shape;
    int64_t group = node_int(n, "group");
    Window win;
    Shape y;

    TRY(check_8bit(g, n, w));
    if (xs->rank != ws->rank || xs->rank < 3 || xs->rank > 2 + WINDOW_AXES)
        return FAIL(E_SHAPE, "%s: inputs of rank %d and %d, expected the same of 3 to %d", node_text(g, n), xs->rank,
                    ws->rank, 2 + WINDOW_AXES);
    if (group < 1 || xs->dim[1] % group || ws->dim[0] % group || xs->dim[1] / group != ws->dim[1])
        return FAIL(E_SHAPE, "%s: the channels do not fit %lld groups", node_text(g, n), (long long)group);
    TRY(window_infer(&win, g, n, xs, ws->dim + 2, false));
    TRY(check_same_type(g, n, zero_x, in_value(g, n, 0)->dtype));
    TRY(check_same_type(g, n, zero_w, in_value(g, n, w)->dtype));
    if (has_in(n, zero_x))
        TRY(check_param(g, n, zero_x, xs, (Along){ -1, 0 }));
    if (has_in(n, zero_w))
        TRY(check_param(g, n, zero_w, ws, (Along){ 0, 0 }));
    y = window_out_shape(&win, xs->dim[0], ws->dim[0]);
    set_out(g, n, 0, out, &y);
    return ST_OK;
}

/* Emits the exact sum in float64; `bias` is float64 or absent. */
static ValueId integer_conv(Graph *g, const Node *n, int w, int zero_x, int zero_w, ValueId bias)
{
    Attr attrs[sizeof conv_attrs / sizeof *conv_attrs] = { { 0 } };
    ValueId x = centred(g, n->in[0], optional(n, zero_x), DT_FLOAT64, (Along){ -1, 0 });
    ValueId k = centred(g, n->in[w], optional(n, zero_w), DT_FLOAT64, (Along){ 0, 0 });

    for (int i = 0; conv_attrs[i].name; i++)
        attrs[i] = *node_attr(n, conv_attrs[i].name);
    return has_value(bias) ? EMIT(g, Conv, attrs, x, k, bias) : EMIT(g, Conv, attrs, x, k);
}

static Status infer_conv_integer(Graph *g, Node *n) { return infer_conv(g, n, 1, 2, 3, DT_INT32); }

static Status lower_conv_integer(Graph *g, Node *n)
{
    if (inputs_known(g, n))
        graph_replace(g, n->out[0], emit_cast(g, integer_conv(g, n, 1, 2, 3, NO_VALUE), DT_INT32));
    return g->status;
}

DEFINE_OP(ConvInteger, .since = 10, .in_min = 2, .in_max = 4, .out_min = 1, .out_max = 1, .dtypes = DTYPES_8BIT,
          .attrs = conv_attrs, .infer = infer_conv_integer, .grad = grad_none, .lower = lower_conv_integer,
          .doc = "convolution of (x - x_zero) by (w - w_zero) in int32");

/* Inputs: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias in units of x_scale * w_scale. */
static Status infer_qlinear_conv(Graph *g, Node *n)
{
    const Shape one = shape_scalar();

    TRY(check_8bit(g, n, 7));
    TRY(infer_conv(g, n, 3, 2, 5, in_value(g, n, 7)->dtype));
    for (int i = 1; i < 7; i += i == 4 ? 2 : 3)
        TRY(check_float(g, n, i));
    TRY(check_param(g, n, 1, &one, (Along){ -1, 0 }));
    TRY(check_param(g, n, 4, in_value(g, n, 3)->shape, (Along){ 0, 0 }));
    TRY(check_param(g, n, 6, &one, (Along){ -1, 0 }));
    TRY(check_param(g, n, 7, &one, (Along){ -1, 0 }));
    if (has_in(n, 8) && in_value(g, n, 8)->dtype != DT_INT32)
        return FAIL(E_SHAPE, "%s: the bias is %s, expected int32", node_text(g, n),
                    dtype_name(in_value(g, n, 8)->dtype));
    return ST_OK;
}

static Status lower_qlinear_conv(Graph *g, Node *n)
{
    Along channel = { 1, 0 };
    ValueId bias;

    if (!inputs_known(g, n))
        return ST_OK;
    bias = has_in(n, 8) ? emit_cast(g, n->in[8], DT_FLOAT64) : NO_VALUE;
    return rescale(g, n, integer_conv(g, n, 3, 2, 5, bias), channel, channel);
}

DEFINE_OP(QLinearConv, .since = 10, .in_min = 8, .in_max = 9, .out_min = 1, .out_max = 1, .dtypes = DTYPES_8BIT,
          .attrs = conv_attrs, .infer = infer_qlinear_conv, .grad = grad_none, .lower = lower_qlinear_conv,
          .doc = "quantised convolution");
