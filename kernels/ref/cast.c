/* Cast: every real type to every other.
 *
 * Floats are truncated toward zero; what the integer type cannot hold becomes its nearest value, NaN becomes 0 (C
 * leaves that undefined).  Integers wrap.  To bool: is it different from 0?  16-bit floats round once, to nearest
 * even. */
#include <stdlib.h>

#include "kernels/ref/elementwise.h"

/* ---- between native types ---- */

#define PLAIN(D, T, S)                                         \
    case D:                                                    \
        for (int64_t i = 0; i < count; i++)                    \
            ((T *)out->data)[i] = (T)((const S *)in->data)[i]; \
        return ST_OK;
#define TEST(D, T, S)                                            \
    case D:                                                      \
        for (int64_t i = 0; i < count; i++)                      \
            ((T *)out->data)[i] = ((const S *)in->data)[i] != 0; \
        return ST_OK;
#define SATURATE(D, T, S)                                                                           \
    case D:                                                                                         \
        for (int64_t i = 0; i < count; i++)                                                         \
            ((T *)out->data)[i] = (T)saturate((double)((const S *)in->data)[i], 8 * sizeof(T) - 1); \
        return ST_OK;
#define SATURATE_UNSIGNED(D, T, S)                                                                       \
    case D:                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                              \
            ((T *)out->data)[i] = (T)saturate_unsigned((double)((const S *)in->data)[i], 8 * sizeof(T)); \
        return ST_OK;

#define FROM_FLOAT(D, S)                                                                                        \
    case D:                                                                                                     \
        switch (out->dtype) {                                                                                   \
            PASTE_FLOAT(PLAIN, S)                                                                               \
            PASTE_SIGNED(SATURATE, S) PASTE_UNSIGNED(SATURATE_UNSIGNED, S) PASTE_BOOL(TEST, S) default : break; \
        }                                                                                                       \
        break;
#define FROM_INT(D, S)                                                                                                 \
    case D:                                                                                                            \
        switch (out->dtype) {                                                                                          \
            PASTE_FLOAT(PLAIN, S) PASTE_SIGNED(PLAIN, S) PASTE_UNSIGNED(PLAIN, S) PASTE_BOOL(TEST, S) default : break; \
        }                                                                                                              \
        break;

/* ---- from and to 16-bit floats, by way of double, which holds them and float32 exactly ---- */

static void store(Tensor *out, int64_t i, double v)
{
    switch (out->dtype) {
#define X(D, T) \
    case D: ((T *)out->data)[i] = (T)saturate(v, 8 * sizeof(T) - 1); break;
        EACH_SIGNED(X)
#undef X
#define X(D, T) \
    case D: ((T *)out->data)[i] = (T)saturate_unsigned(v, 8 * sizeof(T)); break;
        EACH_UNSIGNED(X)
#undef X
    case DT_BOOL: tensor_set_int(out, i, v != 0); break;
    default: tensor_set_float(out, i, v);
    }
}

static Status run_cast(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const int64_t count = tensor_numel(out);

    (void)ctx;
    (void)state;
    switch (in->dtype) {
        EACH_FLOAT(FROM_FLOAT)
        EACH_INT(FROM_INT)
        FROM_INT(DT_BOOL, uint8_t)
    default: break;
    }
    for (int64_t i = 0; i < count; i++)
        store(out, i, tensor_float(in, i));
    return ST_OK;
}

DEFINE_KERNEL(ref_cast, .op = &op_Cast, .dtypes = DTYPES_ALL, .run = run_cast);
DEFINE_KERNEL(ref_cast_like, .op = &op_CastLike, .dtypes = DTYPES_ALL,
              .run = run_cast); /* while shapes are found; then it is a Cast */

/* ---- many tensors ---- */

static Status run_cast_all(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    for (int i = 0; i < *(const int *)state; i++)
        TRY(run_cast(ctx, NULL, &in[i], &out[i]));
    return ST_OK;
}

DEFINE_KERNEL(ref_cast_all, .op = &op_CastAll,
              .dtypes = DTYPE_BIT(DT_FLOAT32) | DTYPE_BIT(DT_FLOAT16) | DTYPE_BIT(DT_BFLOAT16),
              .prepare = ref_prepare_count, .run = run_cast_all, .release = free);
