/* The elementwise operators as expressions over the functions of kernels/cuda/device/elementwise.cuh. */
#include "graph/base/numtext.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/batchnorm.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/random.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"
#include "kernels/cuda/expr.h"

/* ---- one operand ---- */

DEFINE_EXPR(cuda_neg, Neg, .function = "neg");
DEFINE_EXPR(cuda_abs, Abs, .function = "abs");
DEFINE_EXPR(cuda_reciprocal, Reciprocal, .function = "reciprocal");
DEFINE_EXPR(cuda_sqrt, Sqrt, .function = "sqrt");
DEFINE_EXPR(cuda_exp, Exp, .function = "exp");
DEFINE_EXPR(cuda_log, Log, .function = "log");
DEFINE_EXPR(cuda_erf, Erf, .function = "erf", .dtypes = DTYPES_FLOAT);
DEFINE_EXPR(cuda_sin, Sin, .function = "sin");
DEFINE_EXPR(cuda_cos, Cos, .function = "cos");
DEFINE_EXPR(cuda_tan, Tan, .function = "tan");
DEFINE_EXPR(cuda_asin, Asin, .function = "asin");
DEFINE_EXPR(cuda_acos, Acos, .function = "acos");
DEFINE_EXPR(cuda_atan, Atan, .function = "atan");
DEFINE_EXPR(cuda_sinh, Sinh, .function = "sinh");
DEFINE_EXPR(cuda_cosh, Cosh, .function = "cosh");
DEFINE_EXPR(cuda_asinh, Asinh, .function = "asinh");
DEFINE_EXPR(cuda_acosh, Acosh, .function = "acosh");
DEFINE_EXPR(cuda_atanh, Atanh, .function = "atanh");
DEFINE_EXPR(cuda_sign, Sign, .function = "sign");
DEFINE_EXPR(cuda_ceil, Ceil, .function = "ceil");
DEFINE_EXPR(cuda_floor, Floor, .function = "floor");
DEFINE_EXPR(cuda_round, Round, .function = "round");
DEFINE_EXPR(cuda_not, Not, .function = "logical_not");
DEFINE_EXPR(cuda_bitwise_not, BitwiseNot, .function = "bitwise_not");
DEFINE_EXPR(cuda_is_nan, IsNaN, .function = "is_nan");
DEFINE_EXPR(cuda_is_inf, IsInf, .function = "is_inf",
            .attr = { { "detect_negative", NULL }, { "detect_positive", NULL } });
DEFINE_EXPR(cuda_cast, Cast, .function = "cast", .converts = true);

/* ---- arithmetic, comparisons, logic ---- */

DEFINE_EXPR(cuda_add, Add, .function = "add");
DEFINE_EXPR(cuda_sub, Sub, .function = "sub");
DEFINE_EXPR(cuda_mul, Mul, .function = "mul");
DEFINE_EXPR(cuda_div, Div, .function = "div");
DEFINE_EXPR(cuda_pow, Pow, .function = "pow");
DEFINE_EXPR(cuda_prelu, PRelu, .function = "prelu");
DEFINE_EXPR(cuda_mod, Mod, .function = "mod", .attr = { { "fmod", NULL } });
DEFINE_EXPR(cuda_bit_shift, BitShift, .function = "bit_shift", .attr = { { "direction", "LEFT" } });
DEFINE_EXPR(cuda_bitwise_and, BitwiseAnd, .function = "bitwise_and");
DEFINE_EXPR(cuda_bitwise_or, BitwiseOr, .function = "bitwise_or");
DEFINE_EXPR(cuda_bitwise_xor, BitwiseXor, .function = "bitwise_xor");
DEFINE_EXPR(cuda_equal, Equal, .function = "equal");
DEFINE_EXPR(cuda_greater, Greater, .function = "greater");
DEFINE_EXPR(cuda_less, Less, .function = "less");
DEFINE_EXPR(cuda_greater_or_equal, GreaterOrEqual, .function = "greater_or_equal");
DEFINE_EXPR(cuda_less_or_equal, LessOrEqual, .function = "less_or_equal");
DEFINE_EXPR(cuda_and, And, .function = "logical_and");
DEFINE_EXPR(cuda_or, Or, .function = "logical_or");
DEFINE_EXPR(cuda_xor, Xor, .function = "logical_xor");

/* ---- any number of operands ---- */

static void write_mean(FILE *f, const Graph *g, const Node *n, const char *const *arg)
{
    (void)g;
    fputs("ew::mean(", f);
    for (int i = 1; i < n->n_in; i++)
        fputs("ew::add(", f);
    fputs(arg[0], f);
    for (int i = 1; i < n->n_in; i++)
        fprintf(f, ", %s)", arg[i]);
    fprintf(f, ", %d)", n->n_in);
}

DEFINE_EXPR(cuda_sum, Sum, .function = "add", .folds = true);
DEFINE_EXPR(cuda_mean, Mean, .write = write_mean);
DEFINE_EXPR(cuda_max, Max, .function = "max", .folds = true);
DEFINE_EXPR(cuda_min, Min, .function = "min", .folds = true);

/* ---- choices ---- */

/* An absent bound does not bound. */
static void write_clip(FILE *f, const Graph *g, const Node *n, const char *const *arg)
{
    const char *low = n->n_in > 1 ? arg[1] : NULL, *high = n->n_in > 2 ? arg[2] : NULL;

    (void)g;
    fprintf(f, "%s%s%s", high ? "ew::at_most(" : "", low ? "ew::at_least(" : "", arg[0]);
    fprintf(f, low ? ", %s)" : "%s", low ? low : "");
    fprintf(f, high ? ", %s)" : "%s", high ? high : "");
}

static void write_dropout_grad(FILE *f, const Graph *g, const Node *n, const char *const *arg)
{
    double ratio = node_float(n, "ratio");
    char number[NUMBER_TEXT];

    (void)g;
    fprintf(f, "ew::masked(%s, %s, %s)", arg[0], arg[1], text_hex64(number, ratio < 1 ? 1 / (1 - ratio) : 0));
}

DEFINE_EXPR(cuda_where, Where, .function = "where");
DEFINE_EXPR(cuda_clip, Clip, .write = write_clip);
DEFINE_EXPR(cuda_dropout_grad, DropoutGrad, .write = write_dropout_grad);

/* ---- normalisation ---- */

DEFINE_EXPR(cuda_normalized, BatchNormApply, .function = "normalized", .n_arg = 5, .attr = { { "epsilon", NULL } });

/* ---- activations ---- */

DEFINE_EXPR(cuda_relu, Relu, .function = "relu");
DEFINE_EXPR(cuda_sigmoid, Sigmoid, .function = "sigmoid");
DEFINE_EXPR(cuda_tanh, Tanh, .function = "tanh");
DEFINE_EXPR(cuda_gelu, Gelu, .function = "gelu", .attr = { { "approximate", "tanh" } });
DEFINE_EXPR(cuda_leaky_relu, LeakyRelu, .function = "leaky_relu", .attr = { { "alpha", NULL } });
DEFINE_EXPR(cuda_thresholded_relu, ThresholdedRelu, .function = "thresholded_relu", .attr = { { "alpha", NULL } });
DEFINE_EXPR(cuda_elu, Elu, .function = "elu", .attr = { { "alpha", NULL } });
DEFINE_EXPR(cuda_celu, Celu, .function = "celu", .attr = { { "alpha", NULL } });
DEFINE_EXPR(cuda_selu, Selu, .function = "selu", .attr = { { "alpha", NULL }, { "gamma", NULL } });
DEFINE_EXPR(cuda_hard_sigmoid, HardSigmoid, .function = "hard_sigmoid",
            .attr = { { "alpha", NULL }, { "beta", NULL } });
DEFINE_EXPR(cuda_hard_swish, HardSwish, .function = "hard_swish");
DEFINE_EXPR(cuda_softplus, Softplus, .function = "softplus");
DEFINE_EXPR(cuda_softsign, Softsign, .function = "softsign");
DEFINE_EXPR(cuda_mish, Mish, .function = "mish");
DEFINE_EXPR(cuda_swish, Swish, .function = "swish", .attr = { { "alpha", NULL } });
DEFINE_EXPR(cuda_shrink, Shrink, .function = "shrink", .attr = { { "lambd", NULL }, { "bias", NULL } });
DEFINE_EXPR(cuda_relu_grad, ReluGrad, .function = "relu_grad");
DEFINE_EXPR(cuda_sigmoid_grad, SigmoidGrad, .function = "sigmoid_grad");
DEFINE_EXPR(cuda_tanh_grad, TanhGrad, .function = "tanh_grad");
DEFINE_EXPR(cuda_gelu_grad, GeluGrad, .function = "gelu_grad", .attr = { { "approximate", "tanh" } });
