/* Own kernels by name and type, and their launches. */
#include "kernels/cuda/cuda.h"

#include <stdio.h>

Status cuda_check(const KernelCtx *ctx, Status st) { return st ? FAIL(st, "%s", ctx->runtime->message()) : ST_OK; }

/* "f32", "bf16", "i64", "u8", "b" ... as in the names of own kernels. */
static const char *cuda_suffix(DType t)
{
    static const char *const suffix[DT_COUNT] = {
        [DT_FLOAT32] = "f32", [DT_FLOAT64] = "f64", [DT_FLOAT16] = "f16", [DT_BFLOAT16] = "bf16", [DT_BOOL] = "b",
        [DT_INT8] = "i8",     [DT_INT16] = "i16",   [DT_INT32] = "i32",   [DT_INT64] = "i64",     [DT_UINT8] = "u8",
        [DT_UINT16] = "u16",  [DT_UINT32] = "u32",  [DT_UINT64] = "u64",
    };

    return suffix[t] ? suffix[t] : "none";
}

Status cuda_kernel(GpuKernel **out, const KernelCtx *ctx, const char *base, DType dtype)
{
    char name[96];

    snprintf(name, sizeof name, dtype ? "%s_%s" : "%s", base, cuda_suffix(dtype));
    TRY_CUDA(ctx, kernel(ctx->gpu, name, out));
    return ST_OK;
}

Status cuda_launch(const KernelCtx *ctx, GpuKernel *k, unsigned blocks, unsigned threads, size_t shared,
                   void *const *args)
{
    const unsigned grid[3] = { blocks, 1, 1 }, block[3] = { threads, 1, 1 };

    TRY_CUDA(ctx, launch(ctx->stream, k, grid, block, shared, args));
    return ST_OK;
}
