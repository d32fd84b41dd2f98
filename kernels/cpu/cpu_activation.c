/* Activation functions with parameters, vectorised by the compiler: A and B are the attributes, rounded to the
 * element's type as the reference does.  A NaN stays a NaN. */
#include "kernels/cpu/cpu_elementwise.h"
#include "graph/ops/activation.gen.h"
#include "kernels/cpu/vmath.h"

/* `fn` with the numbers of up to two attributes. */
static Status prepare_params(void **state, const Graph *g, const Node *n, RowFn fn, const char *alpha, const char *beta)
{
    Elementwise *e;

    TRY(elementwise_prepare(state, g, n, 1, (const RowFn[]){ fn, fn }));
    e = *state;
    e->param[0] = alpha ? node_float(n, alpha) : 0;
    e->param[1] = beta ? node_float(n, beta) : 0;
    return ST_OK;
}

#define PREPARE(NAME, F32, F64, ALPHA, BETA)                                                                 \
    static Status prepare_##NAME(void **state, KernelCtx *ctx, const Graph *g, const Node *n)                \
    {                                                                                                        \
        (void)ctx;                                                                                           \
        return prepare_params(state, g, n, in_value(g, n, 0)->dtype == DT_FLOAT32 ? F32 : F64, ALPHA, BETA); \
    }
/* One expression for both types, or one for float32. */
#define BOTH(NAME, ALPHA, BETA, EXPR) \
    ROW1(NAME##_f32, float, EXPR)     \
    ROW1(NAME##_f64, double, EXPR)    \
    PREPARE(NAME, NAME##_f32, NAME##_f64, ALPHA, BETA)
#define SINGLE(NAME, ALPHA, BETA, EXPR) \
    ROW1(NAME##_f32, float, EXPR)       \
    PREPARE(NAME, NAME##_f32, NAME##_f32, ALPHA, BETA)

#define CLAMP01(v) ((v) < 0 ? 0 : (v) > 1 ? 1 : (v))

BOTH(leaky_relu, "alpha", NULL, x < 0 ? A * x : x)
BOTH(thresholded_relu, "alpha", NULL, x > A ? x : 0)
BOTH(hard_sigmoid, "alpha", "beta", CLAMP01(A *x + B))
BOTH(hard_swish, NULL, NULL, x *CLAMP01(x / 6 + (T)0.5))
BOTH(softsign, NULL, NULL, x / (1 + (x < 0 ? -x : x)))
SINGLE(elu, "alpha", NULL, x < 0 ? A * vexpm1f(x) : x)
SINGLE(celu, "alpha", NULL, x < 0 ? A * vexpm1f(x / A) : x)
SINGLE(selu, "alpha", "gamma", B *(x < 0 ? A * vexpm1f(x) : x))
SINGLE(softplus, NULL, NULL, vsoftplusf(x))
SINGLE(mish, NULL, NULL, x *vtanhf(vsoftplusf(x)))
SINGLE(swish, "alpha", NULL, x *vsigmoidf(A *x))

#define KERNEL(NAME) \
    .prepare = prepare_##NAME, .run = elementwise_run, .release = free, .layouts = kernel_alike, .shares = true

DEFINE_KERNEL(cpu_leaky_relu, .op = &op_LeakyRelu, .dtypes = DTYPES_F32_F64, KERNEL(leaky_relu));
DEFINE_KERNEL(cpu_thresholded_relu, .op = &op_ThresholdedRelu, .dtypes = DTYPES_F32_F64, KERNEL(thresholded_relu));
DEFINE_KERNEL(cpu_hard_sigmoid, .op = &op_HardSigmoid, .dtypes = DTYPES_F32_F64, KERNEL(hard_sigmoid));
DEFINE_KERNEL(cpu_hard_swish, .op = &op_HardSwish, .dtypes = DTYPES_F32_F64, KERNEL(hard_swish));
DEFINE_KERNEL(cpu_softsign, .op = &op_Softsign, .dtypes = DTYPES_F32_F64, KERNEL(softsign));
DEFINE_KERNEL(cpu_elu, .op = &op_Elu, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(elu));
DEFINE_KERNEL(cpu_celu, .op = &op_Celu, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(celu));
DEFINE_KERNEL(cpu_selu, .op = &op_Selu, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(selu));
DEFINE_KERNEL(cpu_softplus, .op = &op_Softplus, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(softplus));
DEFINE_KERNEL(cpu_mish, .op = &op_Mish, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(mish));
DEFINE_KERNEL(cpu_swish, .op = &op_Swish, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(swish));
