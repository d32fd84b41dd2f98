/* Pow, and Sum, Mean, Max and Min of any number of tensors, with broadcasting. */
#include "graph/ops/binary.gen.h"
#include "kernels/broadcast.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/ref_formulas.h"

#define NUMBERS (DTYPES_F32_F64 | DTYPES_INT)

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

#define BODY "kernels/ref/ref_binary.inc"
#define TYPES OF_NUMBERS
#include "kernels/each_type.inc"

static Status run_pow(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const power[])(const Tensor *, Tensor *) = { OF_EACH_NUMBER(power) };

    (void)ctx;
    (void)state;
    if (!(DTYPE_BIT(in[1].dtype) & NUMBERS))
        return FAIL(E_UNSUPPORTED, "Pow: exponents of type %s are not supported", dtype_name(in[1].dtype));
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
    return ref_mode_prepare(state, g, n, how);
}

static Status run_fold(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const fold[])(const RefNode *, const Tensor *, Tensor *) = { OF_EACH_NUMBER(fold) };

    (void)ctx;
    fold[out->dtype](state, in, out);
    return ST_OK;
}

#define FOLDS .prepare = prepare_fold, .run = run_fold, .release = free
DEFINE_KERNEL(ref_sum, .op = &op_Sum, .dtypes = DTYPES_F32_F64, FOLDS);
DEFINE_KERNEL(ref_mean, .op = &op_Mean, .dtypes = DTYPES_F32_F64, FOLDS);
DEFINE_KERNEL(ref_max, .op = &op_Max, .dtypes = NUMBERS, FOLDS);
DEFINE_KERNEL(ref_min, .op = &op_Min, .dtypes = NUMBERS, FOLDS);
