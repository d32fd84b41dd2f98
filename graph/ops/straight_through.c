/* StraightThrough: the gradient of quantisation, whose true derivative is zero almost everywhere.
 *
 * The gradient passes where the rounded integer, before clamping, lies in the range of its type, ends included, and is
 * zero elsewhere, as in PyTorch's fake-quantise.  The operator's output is that of DequantizeLinear; its gradient goes
 * to the input of QuantizeLinear. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/quantize.gen.h"
#include "graph/ops/quantize.h"
#include "graph/ops/straight_through.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

static Status infer_straight(Graph *g, Node *n)
{
    TRY(infer_expect(g, n, 1, "what is quantised", *in_value(g, n, 0)->shape));
    if (has_in(n, 2))
        TRY(infer_expect(g, n, 2, "the range", *in_value(g, n, 0)->shape));
    return infer_like(g, n, 0);
}

static Status grad_straight(Grad *gr)
{
    const bool masked = has_in(gr->node, 2);
    const ValueId zero = masked ? emit_scalar(gr->g, grad_in_value(gr, 0)->dtype, 0) : NO_VALUE, dy = grad_dout(gr, 0);

    grad_set_narrow(gr, 1, masked ? EMIT(gr->g, Where, NULL, grad_in(gr, 2), dy, zero) : dy);
    return gr->g->status;
}

DEFINE_OP(StraightThrough, .domain = "dpexec", .plain = "Identity", .layout = LAYOUT_ANY, .since = 1, .in_min = 2,
          .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .flags = OPF_VIEW, .gradient_only_in = 6,
          .inplace = { 1 }, .infer = infer_straight, .train = train_alone, .grad = grad_straight,
          .place = place_elementwise,
          .doc = "(y, x, within): y, whose gradient goes to x, where `within` holds if it is there");

QuantRole quant_role(const Node *n)
{
    const OpDef *op = n->op;

    return op == &op_QuantizeLinear     ? QUANT_FROM
           : op == &op_DequantizeLinear ? QUANT_TO
           : op == &op_DynamicQuantizeLinear || op == &op_MatMulInteger || op == &op_QLinearMatMul ||
                   op == &op_ConvInteger || op == &op_QLinearConv
               ? QUANT_WITHIN
               : QUANT_NONE;
}

void quantized_range(double range[2], DType t)
{
    const bool is_signed = DTYPES_SIGNED & DTYPE_BIT(t) || t == DT_INT4 || t == DT_INT2;
    const double count = (double)(1LL << dtype_bits(t));

    range[0] = is_signed ? -count / 2 : 0;
    range[1] = range[0] + count - 1;
}

const Node *quantizer_of(const Graph *g, ValueId integers, double range[2])
{
    const Node *from = value(g, integers)->producer, *clip = NULL;
    double bound;

    if (from && from->op == &op_Clip) {
        clip = from;
        from = in_value(g, from, 0)->producer;
    }
    if (!from || quant_role(from) != QUANT_FROM || dtype_bits(value(g, integers)->dtype) > 32)
        return NULL;
    quantized_range(range, value(g, integers)->dtype);
    if (clip && has_in(clip, 1) && value_const_number(g, clip->in[1], &bound) && bound > range[0])
        range[0] = bound;
    if (clip && has_in(clip, 2) && value_const_number(g, clip->in[2], &bound) && bound < range[1])
        range[1] = bound;
    return from;
}

/* A value whose gradient is that of y by x and by the scale: within the range 1 by x and (y - x) / scale by the scale,
 * clamped 0 by x and y / scale by the scale (torch._fake_quantize_learnable_per_tensor_affine and per_channel_affine).
 */
static ValueId by_scale(Graph *g, ValueId y, ValueId x, ValueId within, ValueId scale)
{
    const ValueId zero = emit_scalar(g, value(g, x)->dtype, 0);
    ValueId slope = EMIT(g, Sub, NULL, y, x);

    slope = EMIT(g, Where, NULL, within, slope, y);
    slope = EMIT(g, StopGradient, NULL, EMIT(g, Div, NULL, slope, scale));
    x = EMIT(g, Where, NULL, within, x, zero);
    return EMIT(g, Add, NULL, x, EMIT(g, Mul, NULL, slope, scale));
}

/* ---- the pair of QuantizeLinear and DequantizeLinear ---- */

ValueId dequantised(Graph *g, const Node *to, ValueId integers)
{
    const Attr *attrs = ATTRS(INT("axis", node_int(to, "axis")), INT("block_size", node_int(to, "block_size")),
                              INT("output_dtype", node_int(to, "output_dtype")));
    ValueId in[3] = { integers, to->in[1], has_in(to, 2) ? to->in[2] : NO_VALUE };

    return emit(g, to->op, attrs, has_in(to, 2) ? 3 : 2, in);
}

ValueId straight_through(Graph *g, const Node *to, ValueId integers, const Quantiser *how)
{
    const Node *from = how->from;
    const Attr *attrs =
        ATTRS(INT("axis", node_int(from, "axis")), INT("block_size", node_int(from, "block_size")),
              INT("precision", node_int(from, "precision")), FLOAT("low", how->range[0]), FLOAT("high", how->range[1]));
    const ValueId y = dequantised(g, to, integers);
    const ValueId within = emit(g, &op_QuantizesWithin, attrs, from->n_in, from->in);
    const Tensor *a = in_const(g, to, 1), *b = in_const(g, from, 1);
    ValueId x = from->in[0];

    if (g->status)
        return NO_VALUE;
    if (how->scale_learns && value(g, y)->dtype == value(g, x)->dtype)
        return EMIT(g, StraightThrough, NULL, y, by_scale(g, y, x, within, quantiser_scale(g, from)));
    /* If the two scales differ, the slope of the pair is their ratio. */
    if (!value_eq(to->in[1], from->in[1]) && !(a && b && tensor_same(a, b)) &&
        shape_numel(in_value(g, to, 1)->shape) == 1 && shape_numel(in_value(g, from, 1)->shape) == 1)
        x = EMIT(g, Mul, NULL, x, emit_cast(g, EMIT(g, Div, NULL, to->in[1], from->in[1]), value(g, x)->dtype));
    return EMIT(g, StraightThrough, NULL, y, emit_cast(g, x, value(g, y)->dtype), within);
}
