/* Cast: every real type to every other.
 *
 * Floats are truncated toward zero; what the integer type cannot hold becomes its nearest value, NaN becomes 0 (C
 * leaves that undefined).  Integers wrap.  To bool: is it different from 0?  16-bit floats round once, to nearest
 * even; smaller ones as the node says. */
#include <stdlib.h>
#include <string.h>

#include "graph/small.h"
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

static Status prepare_cast(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const SmallRounding how = { node_int(n, "saturate") != 0, *node_string(n, "round_mode") };

    (void)ctx;
    return dtype_is_small_float(value(g, n->out[0])->dtype) ? kernel_state(state, &how, sizeof how) : ST_OK;
}

static Status run_cast(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const cast[DT_COUNT])(const void *, Tensor *, int64_t,
                                        int64_t) = { OF_EACH_NUMBER(cast), [DT_BOOL] = cast_u8 };
    const int64_t n = tensor_numel(out);

    const SmallRounding *how = state;

    (void)ctx;
    if (how)
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)out->data)[i] = small_from(out->dtype, tensor_float(in, i), *how);
    else if (cast[in->dtype])
        cast[in->dtype](in->data, out, 0, n);
    else
        for (int64_t i = 0; i < n; i++)
            cast_f64(&(double){ tensor_float(in, i) }, out, i, 1);
    return ST_OK;
}

DEFINE_KERNEL(ref_cast, .op = &op_Cast, .dtypes = DTYPES_STORED, .prepare = prepare_cast, .run = run_cast,
              .release = free);
DEFINE_KERNEL(ref_cast_like, .op = &op_CastLike, .dtypes = DTYPES_STORED, .prepare = prepare_cast, .run = run_cast,
              .release = free); /* while shapes are found; then it is a Cast */

/* ---- bits ---- */

static Status run_bit_cast(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const int64_t n = tensor_numel(out);
    const uint8_t *x = in->data;
    uint8_t *y = out->data;

    (void)ctx;
    (void)state;
    if (tensor_bytes(out))
        memcpy(y, x, tensor_bytes(out));
    for (int64_t i = 0; i < n && out->dtype == DT_BOOL; i++)
        y[i] = x[i] != 0;
    for (int64_t i = 0; i < n && dtype_bits(out->dtype) < 8; i++)
        y[i] = dtype_is_small_int(out->dtype) ? small_from_int(out->dtype, x[i])
                                              : x[i] & ((1 << dtype_bits(out->dtype)) - 1);
    return ST_OK;
}

DEFINE_KERNEL(ref_bit_cast, .op = &op_BitCast, .dtypes = DTYPES_STORED, .run = run_bit_cast);

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
