/* Arithmetic with broadcasting.  Integers wrap: sums and products are formed in uint64_t, where wrapping is defined. */
#include "kernels/ref/elementwise.h"

#define WIDE(v) ((uint64_t)(v))
#define SIGNED_DIV (b == 0 ? 0 : b == -1 ? (T)(0 - WIDE(a)) : (T)(a / b))
#define SIGNED_FMOD (b == 0 || b == -1 ? 0 : a % b)
/* The remainder has the sign of b. */
#define SIGNED_MOD (b == 0 || b == -1 ? 0 : a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b)

ELEMENTWISE(add, void, FLOAT2(a + b) SIGNED2(WIDE(a) + WIDE(b)) UNSIGNED2(WIDE(a) + WIDE(b)))
ELEMENTWISE(sub, void, FLOAT2(a - b) SIGNED2(WIDE(a) - WIDE(b)) UNSIGNED2(WIDE(a) - WIDE(b)))
ELEMENTWISE(mul, void, FLOAT2(a *b) SIGNED2(WIDE(a) * WIDE(b)) UNSIGNED2(WIDE(a) * WIDE(b)))
ELEMENTWISE(div, void, FLOAT2(a / b) SIGNED2(SIGNED_DIV) UNSIGNED2(b == 0 ? 0 : a / b))
ELEMENTWISE(prelu, void, FLOAT2(a < 0 ? a * b : a) SIGNED2(a < 0 ? (T)(WIDE(a) * WIDE(b)) : a) UNSIGNED2(((void)b, a)))
ELEMENTWISE(mod, bool, FLOAT2(fmod(a, b)) SIGNED2(*p ? SIGNED_FMOD : SIGNED_MOD) UNSIGNED2(b == 0 ? 0 : a % b))
ELEMENTWISE(bit_shift, bool, UNSIGNED2(b >= 8 * sizeof(T) ? 0 : *p ? WIDE(a) << b : WIDE(a) >> b))
ELEMENTWISE(bitwise_and, void, SIGNED2(a &b) UNSIGNED2(a &b))
ELEMENTWISE(bitwise_or, void, SIGNED2(a | b) UNSIGNED2(a | b))
ELEMENTWISE(bitwise_xor, void, SIGNED2(a ^ b) UNSIGNED2(a ^ b))

static Status prepare_flag(void **state, bool v)
{
    bool *flag = malloc(sizeof *flag);

    if (!flag)
        return FAIL_NOMEM();
    *flag = v;
    *state = flag;
    return ST_OK;
}

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

/* ---- Pow: the exponent may have another type ---- */

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

#define POW_AS(AT, BT, EXPR)                                 \
    for (WALK(w, &out->shape, 2, in)) {                      \
        const AT *as = (const AT *)in[0].data + w.offset[0]; \
        const BT *bs = (const BT *)in[1].data + w.offset[1]; \
        AT *ys = (AT *)out->data + done;                     \
        done += w.row;                                       \
        for (int64_t i = 0; i < w.row; i++) {                \
            const AT a = as[i * w.row_stride[0]];            \
            const BT b = bs[i * w.row_stride[1]];            \
            ys[i] = (AT)(EXPR);                              \
        }                                                    \
    }
/* Cases, which it takes for labels. */
/* clang-format off */
#define POW_FLOAT_BY(D, BT, AT) case D: POW_AS(AT, BT, pow(a, (AT)b)) return ST_OK;
#define POW_INT_BY_INT(D, BT, AT) case D: POW_AS(AT, BT, power_int((int64_t)a, (int64_t)b)) return ST_OK;
#define POW_INT_BY_FLOAT(D, BT, AT) case D: POW_AS(AT, BT, saturate(pow((double)a, (double)b), 63)) return ST_OK;
#define POW_ANY_FLOAT(D, AT)                                                                                    \
    case D:                                                                                                     \
        switch (in[1].dtype) {                                                                                  \
        PASTE_FLOAT(POW_FLOAT_BY, AT) PASTE_SIGNED(POW_FLOAT_BY, AT) PASTE_UNSIGNED(POW_FLOAT_BY, AT)           \
        default: break;                                                                                         \
        }                                                                                                       \
        break;
#define POW_ANY_INT(D, AT)                                                                                      \
    case D:                                                                                                     \
        switch (in[1].dtype) {                                                                                  \
        PASTE_FLOAT(POW_INT_BY_FLOAT, AT) PASTE_SIGNED(POW_INT_BY_INT, AT) PASTE_UNSIGNED(POW_INT_BY_INT, AT)   \
        default: break;                                                                                         \
        }                                                                                                       \
        break;
/* clang-format on */

static Status run_pow(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    int64_t done = 0;

    (void)ctx;
    (void)state;
    switch (in[0].dtype) {
        EACH_FLOAT(POW_ANY_FLOAT)
        EACH_INT(POW_ANY_INT)
    default: break;
    }
    return FAIL(E_UNSUPPORTED, "Pow: an exponent of type %s", dtype_name(in[1].dtype));
}

DEFINE_KERNEL(ref_pow, .op = &op_Pow, .dtypes = NUMBERS, .run = run_pow);

/* ---- of any number of tensors: the first is copied, the others are taken in one after the other ---- */

typedef struct {
    int n;
} Variadic;

static Status prepare_variadic(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Variadic *v = malloc(sizeof *v);

    (void)ctx;
    (void)g;
    if (!v)
        return FAIL_NOMEM();
    v->n = n->n_in;
    *state = v;
    return ST_OK;
}

/* y = EXPR(y, b), where y is whole and b broadcasts to it. */
#define FOLD(TYPE, EXPR, LAST)                                           \
    do {                                                                 \
        typedef TYPE T;                                                  \
        T *ys = out->data;                                               \
        for (int k = 0; k < v->n; k++) {                                 \
            int64_t at = 0;                                              \
            for (WALK(w, &out->shape, 1, in + k)) {                      \
                const T *bs = (const T *)in[k].data + w.offset[0];       \
                for (int64_t i = 0; i < w.row; i++, at++) {              \
                    const T a = ys[at], b = bs[i * w.row_stride[0]];     \
                    ys[at] = (T)(k ? (EXPR) : b);                        \
                }                                                        \
            }                                                            \
        }                                                                \
        for (int64_t i = 0, count = tensor_numel(out); i < count; i++) { \
            const T a = ys[i];                                           \
            ys[i] = (T)(LAST);                                           \
        }                                                                \
    } while (0)
#define FOLD_CASE(D, T, EXPR, LAST) \
    case D:                         \
        FOLD(T, EXPR, LAST);        \
        break;

#define VARIADIC(NAME, ...)                                                                           \
    static Status run_##NAME(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)              \
    {                                                                                                 \
        const Variadic *v = state;                                                                    \
        (void)ctx;                                                                                    \
        switch (out->dtype) {                                                                         \
            __VA_ARGS__                                                                               \
        default: return FAIL(E_INTERNAL, "%s: no kernel for type %s", #NAME, dtype_name(out->dtype)); \
        }                                                                                             \
        return ST_OK;                                                                                 \
    }
VARIADIC(sum, PASTE_FLOAT(FOLD_CASE, a + b, a))
VARIADIC(mean, PASTE_FLOAT(FOLD_CASE, a + b, a / (T)v->n))
#define LARGER (a > b || a != a ? a : b)
#define SMALLER (a < b || a != a ? a : b)
VARIADIC(max, PASTE_FLOAT(FOLD_CASE, LARGER, a) PASTE_SIGNED(FOLD_CASE, a > b ? a : b, a)
                  PASTE_UNSIGNED(FOLD_CASE, a > b ? a : b, a))
VARIADIC(min, PASTE_FLOAT(FOLD_CASE, SMALLER, a) PASTE_SIGNED(FOLD_CASE, a < b ? a : b, a)
                  PASTE_UNSIGNED(FOLD_CASE, a < b ? a : b, a))

#define OF_ANY_NUMBER(NAME) .prepare = prepare_variadic, .run = run_##NAME, .release = free
DEFINE_KERNEL(ref_sum, .op = &op_Sum, .dtypes = DTYPES_F32_F64, OF_ANY_NUMBER(sum));
DEFINE_KERNEL(ref_mean, .op = &op_Mean, .dtypes = DTYPES_F32_F64, OF_ANY_NUMBER(mean));
DEFINE_KERNEL(ref_max, .op = &op_Max, .dtypes = NUMBERS, OF_ANY_NUMBER(max));
DEFINE_KERNEL(ref_min, .op = &op_Min, .dtypes = NUMBERS, OF_ANY_NUMBER(min));
