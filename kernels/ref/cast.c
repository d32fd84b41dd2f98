/* Cast: every real type to every other.
 *
 * Floats are truncated toward zero; what the integer type cannot hold becomes its nearest value, NaN becomes 0 (C
 * leaves that undefined).  Integers wrap.  To bool: is it different from 0?  16-bit floats round once, to nearest
 * even. */
#include <stdlib.h>

#include "kernels/ref/elementwise.h"

/* Elements of `out`, each VALUE of x[i], R being the result's type. */
#define PUT(D, TYPE, VALUE)             \
    case D: {                           \
        typedef TYPE R;                 \
        R *ys = (R *)out->data + at;    \
        for (int64_t i = 0; i < n; i++) \
            ys[i] = (VALUE);            \
        break;                          \
    }

#define BODY "kernels/ref/cast.inc"
#define TYPES OF_NUMBERS
#include "kernels/each_type.inc"

static Status run_cast(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const cast[DT_COUNT])(const void *, Tensor *, int64_t,
                                        int64_t) = { OF_EACH_NUMBER(cast), [DT_BOOL] = cast_u8 };
    const int64_t n = tensor_numel(out);

    (void)ctx;
    (void)state;
    if (cast[in->dtype])
        cast[in->dtype](in->data, out, 0, n);
    else
        for (int64_t i = 0; i < n; i++)
            cast_f64(&(double){ tensor_float(in, i) }, out, i, 1);
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
