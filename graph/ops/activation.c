/* Activation functions.
 *
 * Relu, Clip by numbers, Sigmoid, Tanh and Gelu have gradient operators of their own: one pass over memory.  All but
 * Gelu's read the output, which is what lets Relu be fused into the operator before it. */
#include <math.h>
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

static Status infer(Graph *g, Node *n) { return infer_like(g, n, 0); }

/* ---- the gradient operators: dx = dy * f'(x), linear in dy ---- */

static Status infer_grad_op(Graph *g, Node *n)
{
    if (!shape_eq(in_value(g, n, 0)->shape, in_value(g, n, 1)->shape))
        return FAIL(E_SHAPE, "%s: the inputs have different shapes", node_text(g, n));
    TRY(infer_same_dtype(g, n, 0, 2));
    return infer_like(g, n, 0);
}

static Status grad_relu(Grad *gr)
{
    grad_set(gr, 0, EMIT(gr->g, ReluGrad, NULL, grad_dout(gr, 0), grad_out(gr, 0)));
    return gr->g->status;
}

static Status grad_sigmoid(Grad *gr)
{
    grad_set(gr, 0, EMIT(gr->g, SigmoidGrad, NULL, grad_dout(gr, 0), grad_out(gr, 0)));
    return gr->g->status;
}

static Status grad_tanh(Grad *gr)
{
    grad_set(gr, 0, EMIT(gr->g, TanhGrad, NULL, grad_dout(gr, 0), grad_out(gr, 0)));
    return gr->g->status;
}

static Status grad_gelu(Grad *gr)
{
    const Attr *how = ATTRS(STRING("approximate", node_string(gr->node, "approximate")));

    grad_set(gr, 0, EMIT(gr->g, GeluGrad, how, grad_dout(gr, 0), grad_in(gr, 0)));
    return gr->g->status;
}

static Status infer_gelu(Graph *g, Node *n)
{
    const char *how = node_string(n, "approximate");

    if (strcmp(how, "none") && strcmp(how, "tanh"))
        return FAIL(E_UNSUPPORTED, "%s: approximate '%s', expected 'none' or 'tanh'", node_text(g, n), how);
    return n->n_in == 2 ? infer_grad_op(g, n) : infer_like(g, n, 0);
}

#define UNARY(version, first)                                                                                       \
    .elementwise = true, .since = (version), .from = (first), .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, \
    .inplace = { 1 }, .dtypes = DTYPES_FLOAT, .infer = infer, .place = place_elementwise
/* Linear in dy alone. */
static Status place_gradient(Placement *p) { return p->in[0].kind == PL_P ? place_mul(p) : place_elementwise(p); }

#define GRAD_OP                                                                                                \
    .elementwise = true, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, \
    .inplace = { 3 }, .dtypes = DTYPES_FLOAT, .place = place_gradient

/* ---- the same in ONNX's operators ---- */

static ValueId number(Graph *g, ValueId like, double v) { return emit_scalar(g, value(g, like)->dtype, v); }

static Status standard_relu(Graph *g, Node *n)
{
    ValueId zero = number(g, n->in[0], 0), off = EMIT(g, LessOrEqual, NULL, n->in[1], zero);

    graph_replace(g, n->out[0], EMIT(g, Where, NULL, off, zero, n->in[0]));
    return g->status;
}

/* `both`, and y is on that side of the bound.  An infinite bound holds everywhere. */
static ValueId within(Graph *g, ValueId both, const OpDef *side, ValueId y, double bound)
{
    ValueId at = isinf(bound) ? NO_VALUE : emit(g, side, NULL, 2, (ValueId[]){ y, number(g, y, bound) });

    return !has_value(at) ? both : has_value(both) ? EMIT(g, And, NULL, both, at) : at;
}

static Status standard_clip(Graph *g, Node *n)
{
    ValueId at = within(g, NO_VALUE, &op_Greater, n->in[1], node_float(n, "min"));

    at = within(g, at, &op_Less, n->in[1], node_float(n, "max"));
    graph_replace(g, n->out[0], has_value(at) ? EMIT(g, Where, NULL, at, n->in[0], number(g, n->in[0], 0)) : n->in[0]);
    return g->status;
}

static Status standard_sigmoid(Graph *g, Node *n)
{
    ValueId rest = EMIT(g, Sub, NULL, number(g, n->in[1], 1), n->in[1]);
    ValueId slope = EMIT(g, Mul, NULL, n->in[1], rest);

    graph_replace(g, n->out[0], EMIT(g, Mul, NULL, n->in[0], slope));
    return g->status;
}

static Status standard_tanh(Graph *g, Node *n)
{
    ValueId square = EMIT(g, Mul, NULL, n->in[1], n->in[1]);
    ValueId slope = EMIT(g, Sub, NULL, number(g, n->in[1], 1), square);

    graph_replace(g, n->out[0], EMIT(g, Mul, NULL, n->in[0], slope));
    return g->status;
}

static ValueId times(Graph *g, ValueId x, double v) { return EMIT(g, Mul, NULL, x, number(g, x, v)); }
static ValueId plus(Graph *g, ValueId x, double v) { return EMIT(g, Add, NULL, x, number(g, x, v)); }

/* Phi(x) + x phi(x), of the normal distribution. */
static ValueId gelu_slope(Graph *g, ValueId x)
{
    ValueId square = EMIT(g, Mul, NULL, x, x), share = EMIT(g, Erf, NULL, times(g, x, 0.70710678118654752440));
    ValueId density = times(g, EMIT(g, Exp, NULL, times(g, square, -0.5)), 0.39894228040143267794);

    share = plus(g, times(g, share, 0.5), 0.5);
    density = EMIT(g, Mul, NULL, x, density);
    return EMIT(g, Add, NULL, share, density);
}

/* With t = tanh(c (x + a x^3)): (1 + t)/2 + x/2 (1 - t^2) c (1 + 3 a x^2). */
static ValueId gelu_tanh_slope(Graph *g, ValueId x)
{
    const double c = 0.79788456080286535588, a = 0.044715;
    ValueId square = EMIT(g, Mul, NULL, x, x), inner = plus(g, times(g, square, c * a), c), t, bend;

    inner = EMIT(g, Mul, NULL, x, inner);
    t = EMIT(g, Tanh, NULL, inner);
    bend = plus(g, times(g, EMIT(g, Mul, NULL, t, t), -0.5), 0.5);
    inner = plus(g, times(g, square, 3 * a * c), c);
    bend = EMIT(g, Mul, NULL, bend, inner);
    bend = EMIT(g, Mul, NULL, bend, x);
    t = plus(g, times(g, t, 0.5), 0.5);
    return EMIT(g, Add, NULL, t, bend);
}

static Status standard_gelu(Graph *g, Node *n)
{
    const bool tanh = !strcmp(node_string(n, "approximate"), "tanh");
    ValueId slope = tanh ? gelu_tanh_slope(g, n->in[1]) : gelu_slope(g, n->in[1]);

    graph_replace(g, n->out[0], EMIT(g, Mul, NULL, n->in[0], slope));
    return g->status;
}

static const AttrDecl clip_attrs[] = { { "min", A_FLOAT, .f = -INFINITY }, { "max", A_FLOAT, .f = INFINITY }, { 0 } };
static const AttrDecl gelu_attrs[] = { { "approximate", A_STRING, .s = "none", .words = "none tanh" }, { 0 } };

DEFINE_OP(Relu, .elementwise = true, .picks = 1, .since = 14, .from = 6, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = 1, .inplace = { 1 }, .dtypes = DTYPES_FLOAT | DTYPES_SIGNED, .infer = infer, .grad = grad_relu,
          .place = place_elementwise, .doc = "max(x, 0)");
DEFINE_OP(Sigmoid, UNARY(13, 6), .grad = grad_sigmoid, .doc = "1 / (1 + e^-x)");
DEFINE_OP(Tanh, UNARY(13, 6), .grad = grad_tanh, .doc = "hyperbolic tangent");
DEFINE_OP(Gelu, .elementwise = true, .since = 20, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .inplace = { 1 }, .dtypes = DTYPES_FLOAT, .attrs = gelu_attrs, .infer = infer_gelu, .grad = grad_gelu,
          .place = place_elementwise, .doc = "x/2 (1 + erf(x/sqrt 2)), or its tanh approximation");
DEFINE_OP(ReluGrad, GRAD_OP, .infer = infer_grad_op, .standard = standard_relu,
          .doc = "(dy, y): dy where y > 0, else 0");
DEFINE_OP(ClipGrad, GRAD_OP, .attrs = clip_attrs, .infer = infer_grad_op, .standard = standard_clip,
          .doc = "(dy, y): dy where min < y < max, else 0; infinite: no bound");
DEFINE_OP(SigmoidGrad, GRAD_OP, .infer = infer_grad_op, .standard = standard_sigmoid, .doc = "(dy, y): dy y (1 - y)");
DEFINE_OP(TanhGrad, GRAD_OP, .infer = infer_grad_op, .standard = standard_tanh, .doc = "(dy, y): dy (1 - y^2)");
DEFINE_OP(GeluGrad, GRAD_OP, .attrs = gelu_attrs, .infer = infer_gelu, .standard = standard_gelu,
          .doc = "(dy, x): dy times Gelu's derivative");

/* ---- piecewise functions; their gradients select between two formulas ---- */

/* Is x 0 or less?  If f keeps the sign, y itself shows it, so that x can be dropped.  The corner belongs to the left
 * part, as in PyTorch. */
static ValueId at_most_0(Grad *gr, bool by_output)
{
    return EMIT(gr->g, LessOrEqual, NULL, by_output ? grad_out(gr, 0) : grad_in(gr, 0), grad_number(gr, 0));
}

static Status set_where(Grad *gr, ValueId condition, ValueId yes, ValueId no)
{
    grad_set(gr, 0, EMIT(gr->g, Where, NULL, condition, yes, no));
    return gr->g->status;
}

/* x <= 0: alpha dy, else dy */
static Status grad_leaky_relu(Grad *gr)
{
    double alpha = node_float(gr->node, "alpha");
    ValueId left = at_most_0(gr, alpha > 0);

    return set_where(gr, left, EMIT(gr->g, Mul, NULL, grad_dout(gr, 0), grad_number(gr, alpha)), grad_dout(gr, 0));
}

/* x <= 0: dy (y + alpha), else dy */
static Status grad_elu(Grad *gr)
{
    double alpha = node_float(gr->node, "alpha");
    ValueId left = at_most_0(gr, alpha > 0);
    ValueId slope = EMIT(gr->g, Add, NULL, grad_out(gr, 0), grad_number(gr, alpha));

    return set_where(gr, left, EMIT(gr->g, Mul, NULL, grad_dout(gr, 0), slope), grad_dout(gr, 0));
}

/* x <= 0: dy (y + gamma alpha), else gamma dy */
static Status grad_selu(Grad *gr)
{
    double alpha = node_float(gr->node, "alpha"), gamma = node_float(gr->node, "gamma");
    ValueId left = at_most_0(gr, gamma > 0 && alpha > 0);
    ValueId slope = EMIT(gr->g, Add, NULL, grad_out(gr, 0), grad_number(gr, alpha * gamma));
    ValueId below = EMIT(gr->g, Mul, NULL, grad_dout(gr, 0), slope);

    return set_where(gr, left, below, EMIT(gr->g, Mul, NULL, grad_dout(gr, 0), grad_number(gr, gamma)));
}

/* x <= 0: dy (y / alpha + 1), else dy */
static Status grad_celu(Grad *gr)
{
    double alpha = node_float(gr->node, "alpha");
    ValueId left = at_most_0(gr, alpha > 0);
    ValueId scaled = EMIT(gr->g, Div, NULL, grad_out(gr, 0), grad_number(gr, alpha));
    ValueId slope = EMIT(gr->g, Add, NULL, scaled, grad_number(gr, 1));

    return set_where(gr, left, EMIT(gr->g, Mul, NULL, grad_dout(gr, 0), slope), grad_dout(gr, 0));
}

static Status infer_celu(Graph *g, Node *n)
{
    if (node_float(n, "alpha") == 0)
        return FAIL(E_MODEL, "%s: alpha must not be 0", node_text(g, n));
    return infer_like(g, n, 0);
}

/* 0 < y < 1: alpha dy, else 0 */
static Status grad_hard_sigmoid(Grad *gr)
{
    Graph *g = gr->g;
    ValueId above = EMIT(g, Greater, NULL, grad_out(gr, 0), grad_number(gr, 0));
    ValueId inside = EMIT(g, And, NULL, above, EMIT(g, Less, NULL, grad_out(gr, 0), grad_number(gr, 1)));
    ValueId slope = EMIT(g, Mul, NULL, grad_dout(gr, 0), grad_number(gr, node_float(gr->node, "alpha")));

    return set_where(gr, inside, slope, grad_number(gr, 0));
}

/* x > alpha: dy, otherwise 0, also where x is a NaN, of which ONNX's formula makes 0 */
static Status grad_thresholded_relu(Grad *gr)
{
    ValueId above = EMIT(gr->g, Greater, NULL, grad_in(gr, 0), grad_number(gr, node_float(gr->node, "alpha")));

    return set_where(gr, above, grad_dout(gr, 0), grad_number(gr, 0));
}

/* |x| <= lambd: 0, otherwise dy, also where x is a NaN */
static Status grad_shrink(Grad *gr)
{
    ValueId size = EMIT(gr->g, Abs, NULL, grad_in(gr, 0));
    ValueId inside = EMIT(gr->g, LessOrEqual, NULL, size, grad_number(gr, node_float(gr->node, "lambd")));

    return set_where(gr, inside, grad_number(gr, 0), grad_dout(gr, 0));
}

/* ---- smooth ones ---- */

/* dy sigmoid(x) */
static Status grad_softplus(Grad *gr)
{
    grad_set(gr, 0, EMIT(gr->g, Mul, NULL, grad_dout(gr, 0), EMIT(gr->g, Sigmoid, NULL, grad_in(gr, 0))));
    return gr->g->status;
}

/* dy (1 - |y|)^2 */
static Status grad_softsign(Grad *gr)
{
    Graph *g = gr->g;
    ValueId size = EMIT(g, Abs, NULL, grad_out(gr, 0));
    ValueId rest = EMIT(g, Sub, NULL, grad_number(gr, 1), size);

    grad_set(gr, 0, EMIT(g, Mul, NULL, grad_dout(gr, 0), EMIT(g, Mul, NULL, rest, rest)));
    return g->status;
}

#define ALPHA(default_value)                            \
    (const AttrDecl[])                                  \
    {                                                   \
        { "alpha", A_FLOAT, .f = default_value }, { 0 } \
    }

DEFINE_OP(ThresholdedRelu, UNARY(22, 10), .attrs = ALPHA(1), .grad = grad_thresholded_relu,
          .doc = "x above alpha, else 0");
DEFINE_OP(Elu, UNARY(22, 6), .attrs = ALPHA(1), .grad = grad_elu, .doc = "x, or alpha (e^x - 1) below 0");
DEFINE_OP(Celu, .elementwise = true, .since = 12, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .inplace = { 1 }, .dtypes = DTYPES_FLOAT, .attrs = ALPHA(1), .infer = infer_celu, .grad = grad_celu,
          .place = place_elementwise, .doc = "x, or alpha (e^(x / alpha) - 1) below 0");
DEFINE_OP(Selu, UNARY(22, 6), .grad = grad_selu, .doc = "gamma x, or gamma alpha (e^x - 1) below 0",
          .attrs = (const AttrDecl[]){ { "alpha", A_FLOAT, .f = 1.67326319217681884765625 },
                                       { "gamma", A_FLOAT, .f = 1.05070102214813232421875 },
                                       { 0 } });
/* An attribute is a float32; what its 1/6 was rounded from is known, as in a HardSwish. */
static Status import_hard_sigmoid(Graph *g, Node *n, int opset)
{
    const Attr *alpha = node_attr(n, "alpha");

    (void)opset;
    if (alpha && alpha->type == A_FLOAT && (float)alpha->f == 1.0F / 6)
        node_set_attr(g, n, &(Attr)FLOAT("alpha", 1.0 / 6));
    return g->status;
}

/* An attribute is a float32: in float64 a number that none holds (1/6) is a constant instead. */
static bool is_exact(const Graph *g, const Node *n, const char *name)
{
    const double v = node_float(n, name);

    return in_value(g, n, 0)->dtype != DT_FLOAT64 || (double)(float)v == v;
}

static Status standard_hard_sigmoid(Graph *g, Node *n)
{
    ValueId x = n->in[0], zero;

    if (is_exact(g, n, "alpha") && is_exact(g, n, "beta"))
        return ST_OK;
    x = plus(g, times(g, x, node_float(n, "alpha")), node_float(n, "beta"));
    zero = number(g, x, 0);
    graph_replace(g, n->out[0], EMIT(g, Clip, NULL, x, zero, number(g, x, 1)));
    return g->status;
}

static Status standard_leaky_relu(Graph *g, Node *n)
{
    const ValueId x = n->in[0];
    ValueId left;

    if (is_exact(g, n, "alpha"))
        return ST_OK;
    left = EMIT(g, Less, NULL, x, number(g, x, 0));
    graph_replace(g, n->out[0], EMIT(g, Where, NULL, left, times(g, x, node_float(n, "alpha")), x));
    return g->status;
}

DEFINE_OP(HardSigmoid, UNARY(22, 6), .import = import_hard_sigmoid, .grad = grad_hard_sigmoid,
          .standard = standard_hard_sigmoid, .doc = "alpha x + beta, kept within 0 and 1",
          .attrs = (const AttrDecl[]){ { "alpha", A_FLOAT, .f = 0.2 }, { "beta", A_FLOAT, .f = 0.5 }, { 0 } });

DEFINE_OP(LeakyRelu, UNARY(16, 6), .attrs = ALPHA(0.01), .grad = grad_leaky_relu, .standard = standard_leaky_relu,
          .doc = "x, or alpha x below 0");
DEFINE_OP(Shrink, .elementwise = true, .since = 9, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .inplace = { 1 }, .dtypes = DTYPES_NUMERIC,
          .attrs = (const AttrDecl[]){ { "bias", A_FLOAT, .f = 0 }, { "lambd", A_FLOAT, .f = 0.5 }, { 0 } },
          .infer = infer, .grad = grad_shrink, .place = place_elementwise,
          .doc = "x pulled toward 0 by bias, 0 within lambd of 0");
DEFINE_OP(Softplus, .precision = PREC_WIDE, UNARY(22, 1), .grad = grad_softplus, .doc = "log(1 + e^x)");
DEFINE_OP(Softsign, UNARY(22, 1), .grad = grad_softsign, .doc = "x / (1 + |x|)");

/* ---- products of x and a gate, lowered: forward and gradient at once ---- */

static Status lower_hard_swish(Graph *g, Node *n)
{
    ValueId gate = EMIT(g, HardSigmoid, ATTRS(FLOAT("alpha", 1.0 / 6), FLOAT("beta", 0.5)), n->in[0]);

    graph_replace(g, n->out[0], EMIT(g, Mul, NULL, n->in[0], gate));
    return g->status;
}

static Status lower_mish(Graph *g, Node *n)
{
    ValueId gate = EMIT(g, Tanh, NULL, EMIT(g, Softplus, NULL, n->in[0]));

    graph_replace(g, n->out[0], EMIT(g, Mul, NULL, n->in[0], gate));
    return g->status;
}

static Status lower_swish(Graph *g, Node *n)
{
    double alpha = node_float(n, "alpha");
    ValueId x = n->in[0];

    if (alpha != 1)
        x = EMIT(g, Mul, NULL, x, emit_scalar(g, in_value(g, n, 0)->dtype, alpha));
    graph_replace(g, n->out[0], EMIT(g, Mul, NULL, n->in[0], EMIT(g, Sigmoid, NULL, x)));
    return g->status;
}

DEFINE_OP(HardSwish, UNARY(22, 14), .lower = lower_hard_swish, .doc = "x HardSigmoid(x; 1/6, 1/2)");
DEFINE_OP(Mish, UNARY(22, 18), .lower = lower_mish, .doc = "x tanh(log(1 + e^x))");
DEFINE_OP(Swish, UNARY(24, 24), .attrs = ALPHA(1), .lower = lower_swish, .doc = "x sigmoid(alpha x)");
