/* Arithmetic with broadcasting.  Integers wrap: sums and products are formed in uint64_t, where wrapping is defined. */
#include "kernels/ref/ref_elementwise.h"
#include "graph/ops/binary.gen.h"

#define U64(v) ((uint64_t)(v))
#define SIGNED_DIV (b == 0 ? 0 : b == -1 ? (T)(0 - U64(a)) : (T)(a / b))
#define SIGNED_FMOD (b == 0 || b == -1 ? 0 : a % b)
/* The remainder has the sign of b. */
#define SIGNED_MOD (b == 0 || b == -1 ? 0 : a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b)

ELEMENTWISE(add, void, FLOAT2(a + b) SIGNED2(U64(a) + U64(b)) UNSIGNED2(U64(a) + U64(b)))
ELEMENTWISE(sub, void, FLOAT2(a - b) SIGNED2(U64(a) - U64(b)) UNSIGNED2(U64(a) - U64(b)))
ELEMENTWISE(mul, void, FLOAT2(a *b) SIGNED2(U64(a) * U64(b)) UNSIGNED2(U64(a) * U64(b)))
ELEMENTWISE(div, void, FLOAT2(a / b) SIGNED2(SIGNED_DIV) UNSIGNED2(b == 0 ? 0 : a / b))
ELEMENTWISE(prelu, void, FLOAT2(a < 0 ? a * b : a) SIGNED2(a < 0 ? (T)(U64(a) * U64(b)) : a) UNSIGNED2(((void)b, a)))
ELEMENTWISE(mod, bool, FLOAT2(fmod(a, b)) SIGNED2(*p ? SIGNED_FMOD : SIGNED_MOD) UNSIGNED2(b == 0 ? 0 : a % b))
ELEMENTWISE(bit_shift, bool, UNSIGNED2(b >= 8 * sizeof(T) ? 0 : *p ? U64(a) << b : U64(a) >> b))
ELEMENTWISE(bitwise_and, void, SIGNED2(a &b) UNSIGNED2(a &b))
ELEMENTWISE(bitwise_or, void, SIGNED2(a | b) UNSIGNED2(a | b))
ELEMENTWISE(bitwise_xor, void, SIGNED2(a ^ b) UNSIGNED2(a ^ b))

static Status prepare_flag(void **state, bool v) { return kernel_state(state, &v, sizeof v); }

static Status prepare_mod(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    (void)g;
    return prepare_flag(state, node_int(n, "fmod") != 0);
}

static Status prepare_shift(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    (void)g;
    return prepare_flag(state, !strcmp(node_string(n, "direction"), "LEFT"));
}

#define NUMBERS (DTYPES_F32_F64 | DTYPES_INT)

DEFINE_KERNEL(ref_add, .op = &op_Add, .dtypes = NUMBERS, .run = run_add);
DEFINE_KERNEL(ref_sub, .op = &op_Sub, .dtypes = NUMBERS, .run = run_sub);
DEFINE_KERNEL(ref_mul, .op = &op_Mul, .dtypes = NUMBERS, .run = run_mul);
DEFINE_KERNEL(ref_div, .op = &op_Div, .dtypes = NUMBERS, .run = run_div);
DEFINE_KERNEL(ref_prelu, .op = &op_PRelu, .dtypes = NUMBERS, .run = run_prelu);
DEFINE_KERNEL(ref_mod, .op = &op_Mod, .dtypes = NUMBERS, .prepare = prepare_mod, .run = run_mod, .release = free);
DEFINE_KERNEL(ref_bit_shift, .op = &op_BitShift, .dtypes = DTYPES_UNSIGNED, .prepare = prepare_shift,
              .run = run_bit_shift, .release = free);
DEFINE_KERNEL(ref_bitwise_and, .op = &op_BitwiseAnd, .dtypes = DTYPES_INT, .run = run_bitwise_and);
DEFINE_KERNEL(ref_bitwise_or, .op = &op_BitwiseOr, .dtypes = DTYPES_INT, .run = run_bitwise_or);
DEFINE_KERNEL(ref_bitwise_xor, .op = &op_BitwiseXor, .dtypes = DTYPES_INT, .run = run_bitwise_xor);

/* ---- Pow ---- */

/* By squaring, wrapping; a negative exponent gives the truncated 1 / a^|b| (0 for |a| > 1, and for a = 0). */
static int64_t power_int(int64_t a, int64_t b)
{
    uint64_t base = (uint64_t)a, y = 1;

    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b; b >>= 1, base *= base)
        if (b & 1)
            y *= base;
    return (int64_t)y;
}

typedef enum { FOLD_SUM, FOLD_MEAN, FOLD_MAX, FOLD_MIN } Fold;
typedef struct {
    int n;
    Fold how;
} Variadic;

#define BODY "kernels/ref/ref_binary.inc"
#define TYPES OF_NUMBERS
#include "kernels/each_type.inc"

static Status run_pow(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const power[])(const Tensor *, Tensor *) = { OF_EACH_NUMBER(power) };

    (void)ctx;
    (void)state;
    if (!(DTYPE_BIT(in[1].dtype) & NUMBERS))
        return FAIL(E_UNSUPPORTED, "Pow: an exponent of type %s", dtype_name(in[1].dtype));
    power[in[0].dtype](in, out);
    return ST_OK;
}

DEFINE_KERNEL(ref_pow, .op = &op_Pow, .dtypes = NUMBERS, .run = run_pow);

/* ---- of any number of tensors ---- */

static Status prepare_fold(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Fold how = n->op == &op_Max    ? FOLD_MAX
                     : n->op == &op_Min  ? FOLD_MIN
                     : n->op == &op_Mean ? FOLD_MEAN
                                         : FOLD_SUM;

    (void)ctx;
    (void)g;
    return kernel_state(state, &(Variadic){ n->n_in, how }, sizeof(Variadic));
}

static Status run_fold(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const fold[])(const Variadic *, const Tensor *, Tensor *) = { OF_EACH_NUMBER(fold) };

    (void)ctx;
    fold[out->dtype](state, in, out);
    return ST_OK;
}

#define FOLDS .prepare = prepare_fold, .run = run_fold, .release = free
DEFINE_KERNEL(ref_sum, .op = &op_Sum, .dtypes = DTYPES_F32_F64, FOLDS);
DEFINE_KERNEL(ref_mean, .op = &op_Mean, .dtypes = DTYPES_F32_F64, FOLDS);
DEFINE_KERNEL(ref_max, .op = &op_Max, .dtypes = NUMBERS, FOLDS);
DEFINE_KERNEL(ref_min, .op = &op_Min, .dtypes = NUMBERS, FOLDS);
