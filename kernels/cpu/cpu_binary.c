/* Functions of two and three elements with broadcasting, vectorised by the compiler. */
#include "kernels/cpu/cpu_elementwise.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/where.gen.h"
#include "kernels/cpu/vmath.h"

/* One loop for each pattern of a row: both operands advance, or one of them stands still. */
#define LOOP2(NAME, T, R, A, B, EXPR)                            \
    ROW_FN(NAME)                                                 \
    {                                                            \
        const T *as = av, *bs = bv;                              \
        R *y = yv;                                               \
        EACH_OF_ROW(const T a = as[A], b = bs[B]; y[i] = (EXPR)) \
    }
#define ROW2(NAME, T, R, EXPR)         \
    LOOP2(NAME##_vv, T, R, i, i, EXPR) \
    LOOP2(NAME##_sv, T, R, 0, i, EXPR) \
    LOOP2(NAME##_vs, T, R, i, 0, EXPR) static const RowFn NAME[] = { NAME##_vv, NAME##_sv, NAME##_vs, NAME##_vv };

#define PREPARE(NAME, TABLE)                                                        \
    static Status NAME(void **state, KernelCtx *ctx, const Graph *g, const Node *n) \
    {                                                                               \
        UNUSED const DType t = in_value(g, n, 0)->dtype;                            \
        (void)ctx;                                                                  \
        return elementwise_prepare(state, g, n, 2, TABLE);                          \
    }
#define ARITHMETIC(NAME, EXPR)           \
    ROW2(NAME##_f32, float, float, EXPR) \
    ROW2(NAME##_f64, double, double, EXPR) PREPARE(prepare_##NAME, t == DT_FLOAT32 ? NAME##_f32 : NAME##_f64)
/* With int64, which wraps. */
#define WITH_INTEGERS(NAME, EXPR)              \
    ROW2(NAME##_f32, float, float, EXPR)       \
    ROW2(NAME##_f64, double, double, EXPR)     \
    ROW2(NAME##_i64, uint64_t, uint64_t, EXPR) \
    PREPARE(prepare_##NAME, t == DT_FLOAT32 ? NAME##_f32 : t == DT_FLOAT64 ? NAME##_f64 : NAME##_i64)
#define COMPARISON(NAME, EXPR)               \
    ROW2(NAME##_f32, float, uint8_t, EXPR)   \
    ROW2(NAME##_f64, double, uint8_t, EXPR)  \
    ROW2(NAME##_i64, int64_t, uint8_t, EXPR) \
    PREPARE(prepare_##NAME, t == DT_FLOAT32 ? NAME##_f32 : t == DT_FLOAT64 ? NAME##_f64 : NAME##_i64)
#define KERNEL(NAME) \
    .prepare = prepare_##NAME, .run = elementwise_run, .release = free, .layouts = kernel_alike, .shares = true

WITH_INTEGERS(add, a + b)
WITH_INTEGERS(sub, a - b)
WITH_INTEGERS(mul, a *b)
ARITHMETIC(div, a / b)
ARITHMETIC(prelu, a < 0 ? a * b : a)
ARITHMETIC(max, a > b || a != a ? a : b)
ARITHMETIC(min, a < b || a != a ? a : b)

static bool supports_two(const Graph *g, const Node *n)
{
    (void)g;
    return n->n_in == 2;
}

DEFINE_KERNEL(cpu_add, .op = &op_Add, .dtypes = DTYPES_F32_F64 | DTYPE_BIT(DT_INT64), KERNEL(add));
DEFINE_KERNEL(cpu_sub, .op = &op_Sub, .dtypes = DTYPES_F32_F64 | DTYPE_BIT(DT_INT64), KERNEL(sub));
DEFINE_KERNEL(cpu_mul, .op = &op_Mul, .dtypes = DTYPES_F32_F64 | DTYPE_BIT(DT_INT64), KERNEL(mul));
DEFINE_KERNEL(cpu_div, .op = &op_Div, .dtypes = DTYPES_F32_F64, KERNEL(div));
DEFINE_KERNEL(cpu_prelu, .op = &op_PRelu, .dtypes = DTYPES_F32_F64, KERNEL(prelu));
DEFINE_KERNEL(cpu_max, .op = &op_Max, .dtypes = DTYPES_F32_F64, .supports = supports_two, KERNEL(max));
DEFINE_KERNEL(cpu_min, .op = &op_Min, .dtypes = DTYPES_F32_F64, .supports = supports_two, KERNEL(min));

COMPARISON(equal, a == b)
COMPARISON(greater, a > b)
COMPARISON(less, a < b)
COMPARISON(greater_or_equal, a >= b)
COMPARISON(less_or_equal, a <= b)

#define COMPARED (DTYPES_F32_F64 | DTYPE_BIT(DT_INT64))

DEFINE_KERNEL(cpu_equal, .op = &op_Equal, .dtypes = COMPARED, KERNEL(equal));
DEFINE_KERNEL(cpu_greater, .op = &op_Greater, .dtypes = COMPARED, KERNEL(greater));
DEFINE_KERNEL(cpu_less, .op = &op_Less, .dtypes = COMPARED, KERNEL(less));
DEFINE_KERNEL(cpu_greater_or_equal, .op = &op_GreaterOrEqual, .dtypes = COMPARED, KERNEL(greater_or_equal));
DEFINE_KERNEL(cpu_less_or_equal, .op = &op_LessOrEqual, .dtypes = COMPARED, KERNEL(less_or_equal));

#define LOGIC(NAME, EXPR) ROW2(NAME##_bool, uint8_t, uint8_t, EXPR) PREPARE(prepare_##NAME, NAME##_bool)
LOGIC(and, (a != 0) & (b != 0))
LOGIC(or, (a != 0) | (b != 0))
LOGIC(xor, (a != 0) ^ (b != 0))

DEFINE_KERNEL(cpu_and, .op = &op_And, .dtypes = DTYPES_BOOL, KERNEL(and));
DEFINE_KERNEL(cpu_or, .op = &op_Or, .dtypes = DTYPES_BOOL, KERNEL(or));
DEFINE_KERNEL(cpu_xor, .op = &op_Xor, .dtypes = DTYPES_BOOL, KERNEL(xor));

/* ---- gradients of activations: a is dy, b is y (of Gelu: x) ---- */

ARITHMETIC(relu_grad, b <= 0 ? 0 : a)
ARITHMETIC(sigmoid_grad, a *b *(1 - b))
ARITHMETIC(tanh_grad, a *(1 - b * b))

/* Phi(x) + x phi(x) */
static inline float gelu_erf_slope(float x)
{
    const float h = vexpf(-0.5f * x * x);

    return vnormalf(x, h) + x * 0.39894228040143267794f * h;
}

/* s + x s (1 - s) dv/dx with v = 2 sqrt(2/pi) (x + c x^3), s = sigmoid(v); s (1 - s) = e^-|v| / (1 + e^-|v|)^2 */
static inline float gelu_tanh_slope(float x)
{
    const float k = 2.0f * 0.79788456080286535588f, c = 0.044715f, x2 = x * x, v = k * (x + c * x * x2);
    const float e = vexpf(-fabsf(v)), d = 1.0f / (1.0f + e), s = v < 0.0f ? e * d : d;

    return s + x * (e * d * d) * k * (1.0f + 3.0f * c * x2);
}

ROW2(gelu_grad_erf, float, float, a *gelu_erf_slope(b))
ROW2(gelu_grad_tanh, float, float, a *gelu_tanh_slope(b))
PREPARE(prepare_gelu_grad, strcmp(node_string(n, "approximate"), "tanh") ? gelu_grad_erf : gelu_grad_tanh)

DEFINE_KERNEL(cpu_relu_grad, .op = &op_ReluGrad, .dtypes = DTYPES_F32_F64, KERNEL(relu_grad));
DEFINE_KERNEL(cpu_sigmoid_grad, .op = &op_SigmoidGrad, .dtypes = DTYPES_F32_F64, KERNEL(sigmoid_grad));
DEFINE_KERNEL(cpu_tanh_grad, .op = &op_TanhGrad, .dtypes = DTYPES_F32_F64, KERNEL(tanh_grad));
DEFINE_KERNEL(cpu_gelu_grad, .op = &op_GeluGrad, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(gelu_grad));

/* ---- Where: by the size of the element ---- */

#define BODY "kernels/cpu/cpu_where.inc"
#define TYPES (OF_U32 | OF_U64)
#include "kernels/each_type.inc"

static bool supports_where(const Graph *g, const Node *n) { return dtype_size(in_value(g, n, 1)->dtype) >= 4; }

static Status prepare_where(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool small = dtype_size(in_value(g, n, 1)->dtype) == 4;

    (void)ctx;
    return elementwise_prepare(state, g, n, 3, small ? where_u32 : where_u64);
}

DEFINE_KERNEL(cpu_where, .op = &op_Where, .dtypes = DTYPES_BOOL, .supports = supports_where, KERNEL(where));
