/* Helpers of the files of kernels/cuda: from a KernelCtx to the driver, and launches of own kernels. */
#ifndef DPX_CUDA_H
#define DPX_CUDA_H

#include "kernels/backend.h"
#include "kernels/cuda/driver.h"

/* The alignment of the driver's memory in bytes, on which kernels may count. */
enum { CUDA_ALIGN = 256 };
static inline size_t cuda_aligned(size_t bytes) { return (bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN; }

static inline const CudaDriver *cuda_driver(const KernelCtx *ctx) { return (const CudaDriver *)ctx->runtime; }

/* Turns a driver's failure into ours; `st` when that is ST_OK. */
Status cuda_check(const KernelCtx *ctx, Status st) CHECKED;
#define TRY_CUDA(ctx, call) TRY(cuda_check((ctx), cuda_driver(ctx)->call))

/* The own kernel "<base>_<dtype>", e.g. cuda_kernel(&k, ctx, "softmax", DT_FLOAT16): "softmax_f16"; without a suffix
 * for DT_NONE. */
Status cuda_kernel(GpuKernel **out, const KernelCtx *ctx, const char *base, DType dtype) CHECKED;

/* Blocks of `threads` that cover n items, at most `most` of them (kernels then stride over the rest). */
static inline unsigned cuda_blocks(int64_t n, int64_t per_block, int64_t most)
{
    int64_t blocks = (n + per_block - 1) / per_block;

    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* Launches a one-dimensional grid on the stream of `ctx`. */
Status cuda_launch(const KernelCtx *ctx, GpuKernel *k, unsigned blocks, unsigned threads, size_t shared,
                   void *const *args) CHECKED;
#define CUDA_ARGS(...) ((void *[]){ __VA_ARGS__ })

#endif
