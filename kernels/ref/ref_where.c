/* Where, by the size of the element (nothing is computed), and Clip. */
#include "graph/ops/where.gen.h"
#include "kernels/broadcast.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/ref_formulas.h"

#define BODY "kernels/ref/ref_where.inc"
#define TYPES (OF_U8 | OF_U16 | OF_U32 | OF_U64)
#include "kernels/each_type.inc"

static Status run_where(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const where[])(const Tensor *,
                                 Tensor *) = { [1] = where_u8, [2] = where_u16, [4] = where_u32, [8] = where_u64 };

    (void)ctx;
    (void)state;
    where[dtype_size(out->dtype)](in, out);
    return ST_OK;
}

DEFINE_KERNEL(ref_where, .op = &op_Where, .dtypes = DTYPES_BOOL, .run = run_where);

#define BODY "kernels/ref/clip.inc"
#define TYPES OF_NUMBERS
#include "kernels/each_type.inc"

static Status run_clip(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const clip[])(const RefNode *, const Tensor *, Tensor *) = { OF_EACH_NUMBER(clip) };

    (void)ctx;
    clip[in[0].dtype](state, in, out);
    return ST_OK;
}

DEFINE_KERNEL(ref_clip, .op = &op_Clip, .dtypes = DTYPES_F32_F64 | DTYPES_INT, .prepare = ref_node_prepare,
              .run = run_clip, .release = free);
