/* Functions of one element, vectorised by the compiler. */
#include "kernels/cpu/cpu_elementwise.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"
#include "kernels/cpu/vmath.h"

/* prepare for float32 and float64, or for float32 alone.  One operand that the output has the shape of never stands
 * still. */
#define PREPARE(NAME, F32, F64)                                                     \
    static Status NAME(void **state, KernelCtx *ctx, const Graph *g, const Node *n) \
    {                                                                               \
        const RowFn fn = in_value(g, n, 0)->dtype == DT_FLOAT32 ? F32 : F64;        \
        (void)ctx;                                                                  \
        return elementwise_prepare(state, g, n, 1, (const RowFn[]){ fn, fn });      \
    }
#define BOTH(NAME, EXPR_F, EXPR_D)   \
    ROW1(NAME##_f32, float, EXPR_F)  \
    ROW1(NAME##_f64, double, EXPR_D) \
    PREPARE(prepare_##NAME, NAME##_f32, NAME##_f64)
#define SINGLE(NAME, EXPR)        \
    ROW1(NAME##_f32, float, EXPR) \
    PREPARE(prepare_##NAME, NAME##_f32, NAME##_f32)

BOTH(neg, -x, -x)
BOTH(abs, fabsf(x), fabs(x))
BOTH(reciprocal, 1 / x, 1 / x)
BOTH(sqrt, sqrtf(x), sqrt(x))
BOTH(relu, x < 0 ? 0 : x, x < 0 ? 0 : x)
SINGLE(exp, vexpf(x))
SINGLE(log, vlogf(x))
SINGLE(erf, verff(x))
SINGLE(tanh, vtanhf(x))
SINGLE(sigmoid, vsigmoidf(x))
BOTH(ceil, ceilf(x), ceil(x))
BOTH(floor, floorf(x), floor(x))
BOTH(round, rintf(x), rint(x))
BOTH(sign, x != x ? x : (float)(x > 0) - (float)(x < 0), x != x ? x : (double)(x > 0) - (double)(x < 0))

ROW1(not_bool, uint8_t, !x)
PREPARE(prepare_not, not_bool, not_bool)

#define KERNEL(NAME) \
    .prepare = prepare_##NAME, .run = elementwise_run, .release = free, .layouts = kernel_alike, .shares = true

DEFINE_KERNEL(cpu_neg, .op = &op_Neg, .dtypes = DTYPES_F32_F64, KERNEL(neg));
DEFINE_KERNEL(cpu_abs, .op = &op_Abs, .dtypes = DTYPES_F32_F64, KERNEL(abs));
DEFINE_KERNEL(cpu_reciprocal, .op = &op_Reciprocal, .dtypes = DTYPES_F32_F64, KERNEL(reciprocal));
DEFINE_KERNEL(cpu_sqrt, .op = &op_Sqrt, .dtypes = DTYPES_F32_F64, KERNEL(sqrt));
DEFINE_KERNEL(cpu_relu, .op = &op_Relu, .dtypes = DTYPES_F32_F64, KERNEL(relu));
DEFINE_KERNEL(cpu_exp, .op = &op_Exp, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(exp));
DEFINE_KERNEL(cpu_log, .op = &op_Log, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(log));
DEFINE_KERNEL(cpu_erf, .op = &op_Erf, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(erf));
DEFINE_KERNEL(cpu_tanh, .op = &op_Tanh, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(tanh));
DEFINE_KERNEL(cpu_ceil, .op = &op_Ceil, .dtypes = DTYPES_F32_F64, KERNEL(ceil));
DEFINE_KERNEL(cpu_floor, .op = &op_Floor, .dtypes = DTYPES_F32_F64, KERNEL(floor));
DEFINE_KERNEL(cpu_round, .op = &op_Round, .dtypes = DTYPES_F32_F64, KERNEL(round));
DEFINE_KERNEL(cpu_not, .op = &op_Not, .dtypes = DTYPES_BOOL, KERNEL(not ));
DEFINE_KERNEL(cpu_sign, .op = &op_Sign, .dtypes = DTYPES_F32_F64, KERNEL(sign));
DEFINE_KERNEL(cpu_sigmoid, .op = &op_Sigmoid, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(sigmoid));

/* ---- Gelu: x Phi(x), or x sigmoid(2u) with u = sqrt(2/pi) (x + c x^3), for (1 + tanh(u)) / 2 = sigmoid(2u) ---- */

#define GELU_2U(x) (2.0f * 0.79788456080286535588f * ((x) + 0.044715f * (x) * (x) * (x)))

ROW1(gelu_erf, float, x *vnormalf(x, vexpf(-0.5f * x * x)))
ROW1(gelu_tanh, float, x *vsigmoidf(GELU_2U(x)))

static Status prepare_gelu(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const RowFn fn = strcmp(node_string(n, "approximate"), "tanh") ? gelu_erf : gelu_tanh;

    (void)ctx;
    return elementwise_prepare(state, g, n, 1, (const RowFn[]){ fn, fn });
}

DEFINE_KERNEL(cpu_gelu, .op = &op_Gelu, .dtypes = DTYPE_BIT(DT_FLOAT32), KERNEL(gelu));

/* ---- Clip: both bounds are numbers; an absent one is an infinity ---- */

typedef struct {
    int64_t total;
    bool has_min, has_max;
} Clip;

static Status prepare_clip(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return kernel_state(state, &(Clip){ shape_numel(value(g, n->out[0])->shape), has_in(n, 1), has_in(n, 2) },
                        sizeof(Clip));
}

#define BODY "kernels/cpu/clip.inc"
#include "kernels/each_type.inc"

RUN_FLOAT(run_clip, clip, ctx->n_threads, state, in, out)

DEFINE_KERNEL(cpu_clip, .op = &op_Clip, .dtypes = DTYPES_F32_F64, .prepare = prepare_clip, .run = run_clip,
              .release = free);

/* ---- Cast, where nothing has to be saturated: to a float, from floats and the integers that graphs compute with
 * ---- */

#define BODY "kernels/cpu/cpu_cast.inc"
#define TYPES (OF_FLOATS | OF_I32 | OF_I64 | OF_U8)
#include "kernels/each_type.inc"

static bool supports_cast(const Graph *g, const Node *n)
{
    (void)g;
    return node_int(n, "to") == DT_FLOAT32 || node_int(n, "to") == DT_FLOAT64;
}

static Status prepare_cast(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    static const RowFn to_f32[] = { OF_EACH_FLOAT(to_f32), [DT_INT32] = to_f32_i32, [DT_INT64] = to_f32_i64,
                                    [DT_UINT8] = to_f32_u8, [DT_BOOL] = to_f32_u8 };
    static const RowFn to_f64[] = { OF_EACH_FLOAT(to_f64), [DT_INT32] = to_f64_i32, [DT_INT64] = to_f64_i64,
                                    [DT_UINT8] = to_f64_u8, [DT_BOOL] = to_f64_u8 };
    const RowFn fn = (node_int(n, "to") == DT_FLOAT64 ? to_f64 : to_f32)[in_value(g, n, 0)->dtype];

    (void)ctx;
    return elementwise_prepare(state, g, n, 1, (const RowFn[]){ fn, fn });
}

#define CASTABLE (DTYPES_F32_F64 | DTYPES_BOOL | DTYPE_BIT(DT_UINT8) | DTYPE_BIT(DT_INT32) | DTYPE_BIT(DT_INT64))

DEFINE_KERNEL(cpu_cast, .op = &op_Cast, .dtypes = CASTABLE, .supports = supports_cast, KERNEL(cast));
