/* Helpers of kernels over scores and class numbers. */
#ifndef DPX_CUDA_NLL_H
#define DPX_CUDA_NLL_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/device/loss.h"

/* Scores of shape [N, C, inner...] and their target, as the node's attributes say; one lane a sample. */
NllBox cuda_nll_box(const Shape *scores, const Value *target, const Node *n);

/* Gives the stream what adds up the two numbers that each of `parts` blocks has left in scratch, to *a and *b; b: NULL
 * if there is but one.  Nothing where there is one part. */
Status cuda_loss_finish(const KernelCtx *ctx, GpuKernel *kernel, unsigned parts, void *a, void *b);

#endif
