/* Helpers of kernels that read or write at tuples of indices. */
#ifndef DPX_CUDA_CUDA_INDEX_H
#define DPX_CUDA_CUDA_INDEX_H

#include "kernels/cuda/cuda_move.h"

/* The state for indices [batch.., q.., k] into x [batch.., k dims.., rest]. */
typedef struct {
    TupleBox box;
    int64_t inner; /* elements of `rest` */
    GpuKernel *kernel;
} Tuples;

Status tuples_prepare(Tuples *out, const KernelCtx *ctx, const Shape *x, const Value *index, int batch_dims) CHECKED;
/* Writes the row of x that each tuple names, box.n int64 numbers. */
Status tuples_run(const KernelCtx *ctx, const Tuples *t, const void *index, void *rows) CHECKED;

static inline void need_scratch(KernelCtx *ctx, size_t bytes)
{
    ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
}

#endif
