/* StraightThrough: the gradient of quantisation, which is a staircase.
 *
 * PyTorch's fake-quantise passes the gradient on where the rounded integer, before it is clamped, lies in the range of
 * its type, the ends included, and stops it elsewhere.  The operator's output is what DequantizeLinear made, and its
 * gradient goes to what QuantizeLinear had read. */
#include "graph/ir/grad.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/quantize.gen.h"
#include "graph/ops/straight_through.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"
#include "graph/ops/quantize.h"
#include "graph/ir/placement_rules.h"

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

/* Where there are no gradients it is not needed. */
static Status train_straight(Graph *g, Node *n, const TrainMode *mode)
{
    if (!mode->batch)
        graph_replace(g, n->out[0], n->in[0]);
    return g->status;
}

DEFINE_OP(StraightThrough, .domain = "dpexec", .plain = "Identity", .layout = LAYOUT_ANY, .since = 1, .in_min = 2,
          .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .flags = OPF_VIEW, .gradient_only_in = 6,
          .inplace = { 1 }, .infer = infer_straight, .train = train_straight, .grad = grad_straight,
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

static void straight_through_narrow(double range[2], const Graph *g, const Node *clip)
{
    double bound;

    if (has_in(clip, 1) && value_const_number(g, clip->in[1], &bound) && bound > range[0])
        range[0] = bound;
    if (has_in(clip, 2) && value_const_number(g, clip->in[2], &bound) && bound < range[1])
        range[1] = bound;
}

const Node *quantizer_of(const Graph *g, ValueId integers, double range[2])
{
    const Node *from = value(g, integers)->producer, *clip = NULL;

    if (from && from->op == &op_Clip) {
        clip = from;
        from = in_value(g, from, 0)->producer;
    }
    if (!from || quant_role(from) != QUANT_FROM || dtype_bits(value(g, integers)->dtype) > 32)
        return NULL;
    quantized_range(range, value(g, integers)->dtype);
    if (clip)
        straight_through_narrow(range, g, clip);
    return from;
}

/* x in steps of `to` where those of `from` are others: the slope of the pair is the ratio of the scales. */
static ValueId in_steps_of(Graph *g, ValueId x, const Node *to, const Node *from)
{
    const Tensor *a = in_const(g, to, 1), *b = in_const(g, from, 1);
    const Shape *s = in_value(g, to, 1)->shape;

    if (value_eq(to->in[1], from->in[1]) || (a && b && tensor_same(a, b)) || shape_numel(s) != 1 ||
        shape_numel(in_value(g, from, 1)->shape) != 1)
        return x;
    return EMIT(g, Mul, NULL, x, emit_cast(g, EMIT(g, Div, NULL, to->in[1], from->in[1]), value(g, x)->dtype));
}

/* What takes the gradient of y, so that the scale gets one as well: what lies within goes straight to x and
 * (y - x) / scale to the scale, what is clamped y / scale to the scale
 * (torch._fake_quantize_learnable_per_tensor_affine and per_channel_affine). */
static ValueId by_scale(Graph *g, ValueId y, ValueId x, ValueId within, ValueId scale)
{
    const ValueId zero = emit_scalar(g, value(g, x)->dtype, 0);
    ValueId slope = EMIT(g, Sub, NULL, y, x);

    slope = EMIT(g, Where, NULL, within, slope, y);
    slope = EMIT(g, StopGradient, NULL, EMIT(g, Div, NULL, slope, scale));
    x = EMIT(g, Where, NULL, within, x, zero);
    return EMIT(g, Add, NULL, x, EMIT(g, Mul, NULL, slope, scale));
}

/* ---- integers between the two ---- */

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
    const ValueId x = from->in[0];

    if (g->status)
        return NO_VALUE;
    if (how->scale_learns && value(g, y)->dtype == value(g, x)->dtype)
        return EMIT(g, StraightThrough, NULL, y, by_scale(g, y, x, within, quantiser_scale(g, from)));
    return EMIT(g, StraightThrough, NULL, y, emit_cast(g, in_steps_of(g, x, to, from), value(g, y)->dtype), within);
}
