/* Activation functions and the gradient operators of some, as the formulas say.  A NaN stays a NaN. */
#include "kernels/ref/ref_elementwise.h"
#include "graph/ops/activation.gen.h"
#include "kernels/ref/gelu.h"

typedef struct {
    double alpha, beta;
} Params;

/* The parameters by the names of the attributes; there is at most one of each kind. */
static Status ref_activation_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    static const char *const names[2][3] = { { "alpha", "lambd" }, { "beta", "gamma", "bias" } };
    double v[2] = { 0, 0 };

    (void)ctx;
    (void)g;
    for (int i = 0; i < 6; i++)
        if (names[i / 3][i % 3] && node_attr(n, names[i / 3][i % 3]))
            v[i / 3] = node_float(n, names[i / 3][i % 3]);
    return kernel_state(state, &(Params){ v[0], v[1] }, sizeof(Params));
}

static Status prepare_gelu(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool is_tanh = !strcmp(node_string(n, "approximate"), "tanh");

    (void)ctx;
    (void)g;
    return kernel_state(state, &is_tanh, sizeof is_tanh);
}

#define ALPHA ((T)p->alpha)
#define BETA ((T)p->beta)
#define SIGMOID(v) (1 / (1 + exp(-(v))))
/* log(1 + e^v) without overflow */
#define SOFTPLUS(v) (((v) > 0 ? (v) : 0) + log1p(exp(-fabs(v))))
#define CLAMP01(v) ((v) < 0 ? (T)0 : (v) > 1 ? (T)1 : (v))

#define SQRT_HALF ((T)0.70710678118654752440)
#define SQRT_1_OVER_2PI ((T)0.39894228040143267794)
#define GELU_ERF (x / 2 * (1 + erf(x * SQRT_HALF)))

ELEMENTWISE(relu, void, FLOAT1(x < 0 ? 0 : x) SIGNED1(x < 0 ? 0 : x))
ELEMENTWISE(sigmoid, void, FLOAT1(SIGMOID(x)))
ELEMENTWISE(tanh, void, FLOAT1(tanh(x)))
ELEMENTWISE(gelu, bool, FLOAT1(*p ? GELU_TANH(T, x) : GELU_ERF))
ELEMENTWISE(leaky_relu, Params, FLOAT1(x < 0 ? ALPHA * x : x))
ELEMENTWISE(thresholded_relu, Params, FLOAT1(x > ALPHA ? x : 0))
ELEMENTWISE(elu, Params, FLOAT1(x < 0 ? ALPHA * expm1(x) : x))
ELEMENTWISE(celu, Params, FLOAT1(x < 0 ? ALPHA * expm1(x / ALPHA) : x))
ELEMENTWISE(selu, Params, FLOAT1(BETA *(x < 0 ? ALPHA * expm1(x) : x)))
ELEMENTWISE(hard_sigmoid, Params, FLOAT1(CLAMP01(ALPHA *x + BETA)))
ELEMENTWISE(hard_swish, void, FLOAT1(x *CLAMP01(x / 6 + (T)0.5)))
ELEMENTWISE(softplus, void, FLOAT1(SOFTPLUS(x)))
ELEMENTWISE(softsign, void, FLOAT1(x / (1 + fabs(x))))
ELEMENTWISE(mish, void, FLOAT1(x *tanh(SOFTPLUS(x))))
ELEMENTWISE(swish, Params, FLOAT1(x *SIGMOID(ALPHA *x)))
#define SHRINK (x < -p->alpha ? x + p->beta : x > p->alpha ? x - p->beta : isnan((double)x) ? (double)x : 0)
ELEMENTWISE(shrink, Params, FLOAT1(SHRINK) SIGNED1(SHRINK) UNSIGNED1(SHRINK))

DEFINE_KERNEL(ref_relu, .op = &op_Relu, .dtypes = DTYPES_F32_F64 | DTYPES_SIGNED, .run = run_relu);
DEFINE_KERNEL(ref_sigmoid, .op = &op_Sigmoid, .dtypes = DTYPES_F32_F64, .run = run_sigmoid);
DEFINE_KERNEL(ref_tanh, .op = &op_Tanh, .dtypes = DTYPES_F32_F64, .run = run_tanh);
DEFINE_KERNEL(ref_gelu, .op = &op_Gelu, .dtypes = DTYPES_F32_F64, .prepare = prepare_gelu, .run = run_gelu,
              .release = free);
#define WITH_PARAMS(NAME) .prepare = ref_activation_prepare, .run = run_##NAME, .release = free
DEFINE_KERNEL(ref_leaky_relu, .op = &op_LeakyRelu, .dtypes = DTYPES_F32_F64, WITH_PARAMS(leaky_relu));
DEFINE_KERNEL(ref_thresholded_relu, .op = &op_ThresholdedRelu, .dtypes = DTYPES_F32_F64, WITH_PARAMS(thresholded_relu));
DEFINE_KERNEL(ref_elu, .op = &op_Elu, .dtypes = DTYPES_F32_F64, WITH_PARAMS(elu));
DEFINE_KERNEL(ref_celu, .op = &op_Celu, .dtypes = DTYPES_F32_F64, WITH_PARAMS(celu));
DEFINE_KERNEL(ref_selu, .op = &op_Selu, .dtypes = DTYPES_F32_F64, WITH_PARAMS(selu));
DEFINE_KERNEL(ref_hard_sigmoid, .op = &op_HardSigmoid, .dtypes = DTYPES_F32_F64, WITH_PARAMS(hard_sigmoid));
DEFINE_KERNEL(ref_hard_swish, .op = &op_HardSwish, .dtypes = DTYPES_F32_F64, .run = run_hard_swish);
DEFINE_KERNEL(ref_softplus, .op = &op_Softplus, .dtypes = DTYPES_F32_F64, .run = run_softplus);
DEFINE_KERNEL(ref_softsign, .op = &op_Softsign, .dtypes = DTYPES_F32_F64, .run = run_softsign);
DEFINE_KERNEL(ref_mish, .op = &op_Mish, .dtypes = DTYPES_F32_F64, .run = run_mish);
DEFINE_KERNEL(ref_swish, .op = &op_Swish, .dtypes = DTYPES_F32_F64, WITH_PARAMS(swish));
DEFINE_KERNEL(ref_shrink, .op = &op_Shrink, .dtypes = DTYPES_F32_F64 | DTYPES_INT, WITH_PARAMS(shrink));

/* ---- gradients: a is dy, b is y (or x) ---- */

/* Phi(x) + x phi(x) */
#define GELU_ERF_SLOPE ((1 + erf(b * SQRT_HALF)) / 2 + b * SQRT_1_OVER_2PI * exp(-b * b / 2))

ELEMENTWISE(relu_grad, void, FLOAT2(b <= 0 ? 0 : a))
ELEMENTWISE(sigmoid_grad, void, FLOAT2(a *b *(1 - b)))
ELEMENTWISE(tanh_grad, void, FLOAT2(a *(1 - b * b)))
ELEMENTWISE(gelu_grad, bool, FLOAT2(a *(*p ? GELU_TANH_SLOPE(T, b) : GELU_ERF_SLOPE)))

DEFINE_KERNEL(ref_relu_grad, .op = &op_ReluGrad, .dtypes = DTYPES_F32_F64, .run = run_relu_grad);
DEFINE_KERNEL(ref_sigmoid_grad, .op = &op_SigmoidGrad, .dtypes = DTYPES_F32_F64, .run = run_sigmoid_grad);
DEFINE_KERNEL(ref_tanh_grad, .op = &op_TanhGrad, .dtypes = DTYPES_F32_F64, .run = run_tanh_grad);
DEFINE_KERNEL(ref_gelu_grad, .op = &op_GeluGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare_gelu,
              .run = run_gelu_grad, .release = free);
