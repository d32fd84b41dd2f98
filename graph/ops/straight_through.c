/* StraightThrough: the gradient of quantisation, which is a staircase.
 *
 * PyTorch's fake-quantise passes the gradient on where the rounded integer, before it is clamped, lies in the range of
 * its type, the ends included, and stops it elsewhere.  The operator's output is what DequantizeLinear made, and its
 * gradient goes to what QuantizeLinear had read. */
#include "graph/grad.h"
#include "graph/ops/quantize.h"
#include "graph/place.h"

static Status infer_straight(Graph *g, Node *n)
{
    TRY(infer_expect(g, n, 1, "what is quantised", *in_value(g, n, 0)->shape));
    TRY(infer_expect(g, n, 2, "the range", *in_value(g, n, 0)->shape));
    return infer_like(g, n, 0);
}

static Status grad_straight(Grad *gr)
{
    const ValueId zero = emit_scalar(gr->g, grad_in_value(gr, 0)->dtype, 0);

    grad_set_narrow(gr, 1, EMIT(gr->g, Where, NULL, grad_in(gr, 2), grad_dout(gr, 0), zero));
    return gr->g->status;
}

/* Where there are no gradients it is not needed. */
static Status train_straight(Graph *g, Node *n, const TrainMode *mode)
{
    if (!mode->batch)
        graph_replace(g, n->out[0], n->in[0]);
    return g->status;
}

DEFINE_OP(StraightThrough, .domain = "dpexec", .plain = "Identity", .layout = LAYOUT_ANY, .since = 1, .in_min = 3,
          .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .flags = OPF_VIEW, .beside_in = 6,
          .inplace = { 1 }, .infer = infer_straight, .train = train_straight, .grad = grad_straight,
          .place = place_elementwise, .doc = "(y, x, within): y, whose gradient goes to x where `within` holds");

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

static void narrow(double range[2], const Graph *g, const Node *clip)
{
    double bound;

    if (has_in(clip, 1) && value_const_number(g, clip->in[1], &bound) && bound > range[0])
        range[0] = bound;
    if (has_in(clip, 2) && value_const_number(g, clip->in[2], &bound) && bound < range[1])
        range[1] = bound;
}

const Node *quantizer_of(const Graph *g, const Node *to, double range[2])
{
    const Node *from = quant_role(to) == QUANT_TO ? in_value(g, to, 0)->producer : NULL, *clip = NULL;

    if (from && from->op == &op_Clip) {
        clip = from;
        from = in_value(g, from, 0)->producer;
    }
    if (!from || quant_role(from) != QUANT_FROM || dtype_bits(in_value(g, to, 0)->dtype) > 32)
        return NULL;
    quantized_range(range, in_value(g, to, 0)->dtype);
    if (clip)
        narrow(range, g, clip);
    return from;
}

ValueId straight_through(Graph *g, const Node *to, const Node *from, const double range[2])
{
    const Attr *attrs =
        ATTRS(INT("axis", node_int(from, "axis")), INT("block_size", node_int(from, "block_size")),
              INT("precision", node_int(from, "precision")), FLOAT("low", range[0]), FLOAT("high", range[1]));
    const Attr *own = ATTRS(INT("axis", node_int(to, "axis")), INT("block_size", node_int(to, "block_size")),
                            INT("output_dtype", node_int(to, "output_dtype")));
    const ValueId x = from->in[0], y = emit(g, to->op, own, to->n_in, to->in);
    const ValueId within = emit(g, &op_QuantizesWithin, attrs, from->n_in, from->in);

    return EMIT(g, StraightThrough, NULL, y, x, within);
}
