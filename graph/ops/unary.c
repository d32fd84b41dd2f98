/* Functions of one element.  Gradients are written in the output where that is possible, so that the memory planner may
 * drop the input after the forward pass. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/unary.gen.h"

static Status infer(Graph *g, Node *n) { return infer_like(g, n, 0); }

static Status infer_bool(Graph *g, Node *n)
{
    set_out(g, n, 0, DT_BOOL, in_value(g, n, 0)->shape);
    return ST_OK;
}

/* dx = dy * factor */
static Status set_times(Grad *gr, ValueId factor)
{
    grad_set(gr, 0, EMIT(gr->g, Mul, NULL, grad_dout(gr, 0), factor));
    return gr->g->status;
}

/* dx = dy / divisor */
static Status set_over(Grad *gr, ValueId divisor)
{
    grad_set(gr, 0, EMIT(gr->g, Div, NULL, grad_dout(gr, 0), divisor));
    return gr->g->status;
}

static ValueId square(Graph *g, ValueId x) { return EMIT(g, Mul, NULL, x, x); }

static ValueId one_minus(Grad *gr, ValueId x) { return EMIT(gr->g, Sub, NULL, grad_number(gr, 1), x); }

static ValueId one_plus(Grad *gr, ValueId x) { return EMIT(gr->g, Add, NULL, grad_number(gr, 1), x); }

/* ---- gradients, one line of mathematics each ---- */

static Status grad_neg(Grad *gr)
{
    grad_set(gr, 0, EMIT(gr->g, Neg, NULL, grad_dout(gr, 0)));
    return gr->g->status;
}

/* dy * sign(x): 0 at 0 */
static Status grad_abs(Grad *gr) { return set_times(gr, EMIT(gr->g, Sign, NULL, grad_in(gr, 0))); }

/* -dy * y^2 */
static Status grad_reciprocal(Grad *gr)
{
    return set_times(gr, EMIT(gr->g, Neg, NULL, square(gr->g, grad_out(gr, 0))));
}

/* dy / (2 y) */
static Status grad_sqrt(Grad *gr) { return set_over(gr, EMIT(gr->g, Add, NULL, grad_out(gr, 0), grad_out(gr, 0))); }

/* dy * y */
static Status grad_exp(Grad *gr) { return set_times(gr, grad_out(gr, 0)); }

/* dy / x */
static Status grad_log(Grad *gr) { return set_over(gr, grad_in(gr, 0)); }

/* dy * 2/sqrt(pi) * exp(-x^2) */
static Status grad_erf(Grad *gr)
{
    Graph *g = gr->g;
    ValueId bell = EMIT(g, Exp, NULL, EMIT(g, Neg, NULL, square(g, grad_in(gr, 0))));

    return set_times(gr, EMIT(g, Mul, NULL, bell, grad_number(gr, 1.1283791670955125739)));
}

static Status grad_sin(Grad *gr) { return set_times(gr, EMIT(gr->g, Cos, NULL, grad_in(gr, 0))); }

static Status grad_cos(Grad *gr)
{
    return set_times(gr, EMIT(gr->g, Neg, NULL, EMIT(gr->g, Sin, NULL, grad_in(gr, 0))));
}

/* dy * (1 + y^2) */
static Status grad_tan(Grad *gr) { return set_times(gr, one_plus(gr, square(gr->g, grad_out(gr, 0)))); }

/* dy / sqrt(1 - x^2) */
static Status grad_asin(Grad *gr)
{
    return set_over(gr, EMIT(gr->g, Sqrt, NULL, one_minus(gr, square(gr->g, grad_in(gr, 0)))));
}

/* -dy / sqrt(1 - x^2) */
static Status grad_acos(Grad *gr)
{
    ValueId root = EMIT(gr->g, Sqrt, NULL, one_minus(gr, square(gr->g, grad_in(gr, 0))));

    return set_over(gr, EMIT(gr->g, Neg, NULL, root));
}

/* dy / (1 + x^2) */
static Status grad_atan(Grad *gr) { return set_over(gr, one_plus(gr, square(gr->g, grad_in(gr, 0)))); }

static Status grad_sinh(Grad *gr) { return set_times(gr, EMIT(gr->g, Cosh, NULL, grad_in(gr, 0))); }

static Status grad_cosh(Grad *gr) { return set_times(gr, EMIT(gr->g, Sinh, NULL, grad_in(gr, 0))); }

/* dy / sqrt(x^2 + 1) */
static Status grad_asinh(Grad *gr)
{
    return set_over(gr, EMIT(gr->g, Sqrt, NULL, one_plus(gr, square(gr->g, grad_in(gr, 0)))));
}

/* dy / sqrt(x^2 - 1) */
static Status grad_acosh(Grad *gr)
{
    ValueId x2 = square(gr->g, grad_in(gr, 0));

    return set_over(gr, EMIT(gr->g, Sqrt, NULL, EMIT(gr->g, Sub, NULL, x2, grad_number(gr, 1))));
}

/* dy / (1 - x^2) */
static Status grad_atanh(Grad *gr) { return set_over(gr, one_minus(gr, square(gr->g, grad_in(gr, 0)))); }

/* ---- the operators ---- */

#define UNARY(version, first, types)                                                                                \
    .since = (version), .from = (first), .elementwise = true, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, \
    .inplace = { 1 }, .dtypes = (types), .infer = infer
#define STEPS .grad = grad_none, .flags = OPF_ZERO_GRAD, .place = place_elementwise

DEFINE_OP(Neg, UNARY(13, 6, DTYPES_FLOAT | DTYPES_SIGNED), .grad = grad_neg, .place = place_linear, .doc = "-x");
DEFINE_OP(Abs, UNARY(13, 6, DTYPES_NUMERIC), .grad = grad_abs, .place = place_elementwise, .doc = "|x|");
DEFINE_OP(Reciprocal, UNARY(13, 6, DTYPES_FLOAT), .grad = grad_reciprocal, .place = place_elementwise, .doc = "1 / x");
DEFINE_OP(Sqrt, UNARY(13, 6, DTYPES_FLOAT), .grad = grad_sqrt, .place = place_elementwise, .doc = "square root");
DEFINE_OP(Exp, .precision = PREC_WIDE, UNARY(13, 6, DTYPES_FLOAT), .grad = grad_exp, .place = place_elementwise,
          .doc = "e^x");
DEFINE_OP(Log, .precision = PREC_WIDE, UNARY(13, 6, DTYPES_FLOAT), .grad = grad_log, .place = place_elementwise,
          .doc = "natural logarithm");
DEFINE_OP(Erf, UNARY(13, 9, DTYPES_NUMERIC), .grad = grad_erf, .place = place_elementwise, .doc = "error function");
DEFINE_OP(Sin, UNARY(22, 7, DTYPES_FLOAT), .grad = grad_sin, .place = place_elementwise, .doc = "sine");
DEFINE_OP(Cos, UNARY(22, 7, DTYPES_FLOAT), .grad = grad_cos, .place = place_elementwise, .doc = "cosine");
DEFINE_OP(Tan, UNARY(22, 7, DTYPES_FLOAT), .grad = grad_tan, .place = place_elementwise, .doc = "tangent");
DEFINE_OP(Asin, UNARY(22, 7, DTYPES_FLOAT), .grad = grad_asin, .place = place_elementwise, .doc = "inverse sine");
DEFINE_OP(Acos, UNARY(22, 7, DTYPES_FLOAT), .grad = grad_acos, .place = place_elementwise, .doc = "inverse cosine");
DEFINE_OP(Atan, UNARY(22, 7, DTYPES_FLOAT), .grad = grad_atan, .place = place_elementwise, .doc = "inverse tangent");
DEFINE_OP(Sinh, UNARY(22, 9, DTYPES_FLOAT), .grad = grad_sinh, .place = place_elementwise, .doc = "hyperbolic sine");
DEFINE_OP(Cosh, UNARY(22, 9, DTYPES_FLOAT), .grad = grad_cosh, .place = place_elementwise, .doc = "hyperbolic cosine");
DEFINE_OP(Asinh, UNARY(22, 9, DTYPES_FLOAT), .grad = grad_asinh, .place = place_elementwise,
          .doc = "inverse hyperbolic sine");
DEFINE_OP(Acosh, UNARY(22, 9, DTYPES_FLOAT), .grad = grad_acosh, .place = place_elementwise,
          .doc = "inverse hyperbolic cosine");
DEFINE_OP(Atanh, UNARY(22, 9, DTYPES_FLOAT), .grad = grad_atanh, .place = place_elementwise,
          .doc = "inverse hyperbolic tangent");
DEFINE_OP(Sign, UNARY(13, 9, DTYPES_NUMERIC), STEPS, .doc = "-1, 0 or 1");
DEFINE_OP(Ceil, UNARY(13, 6, DTYPES_FLOAT), STEPS, .doc = "smallest integer >= x");
DEFINE_OP(Floor, UNARY(13, 6, DTYPES_FLOAT), STEPS, .doc = "largest integer <= x");
DEFINE_OP(Round, UNARY(22, 11, DTYPES_FLOAT), STEPS, .doc = "nearest integer, halves to even");
DEFINE_OP(Not, UNARY(1, 1, DTYPES_BOOL), .grad = grad_none, .place = place_elementwise, .doc = "logical negation");
DEFINE_OP(BitwiseNot, UNARY(18, 18, DTYPES_INT), .grad = grad_none, .place = place_elementwise,
          .doc = "every bit inverted");

#define TEST(version, first)                                                                                        \
    .since = (version), .from = (first), .elementwise = true, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, \
    .dtypes = DTYPES_FLOAT, .infer = infer_bool, .grad = grad_none, .place = place_elementwise

DEFINE_OP(IsNaN, TEST(20, 9), .doc = "is x not a number?");
DEFINE_OP(IsInf, TEST(20, 10), .doc = "is x infinite, of the signs asked for?",
          .attrs = (const AttrDecl[]){
              { "detect_negative", A_INT, .i = 1 }, { "detect_positive", A_INT, .i = 1 }, { 0 } });
