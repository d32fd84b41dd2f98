/* Helpers of kernels that run a body: kernels/cuda/cuda_fused.c, with a sum kernels/cuda/fused_sum.c,
 * kernels/cuda/cuda_update.c. */
#ifndef DPX_CUDA_CUDA_FUSED_H
#define DPX_CUDA_CUDA_FUSED_H

#include "graph/ir/graph.h"

/* The program of n (fused_body) with constants of one element as literals.  The caller frees it. */
Status fused_kernel_body(Graph **out, const Graph *g, const Node *n) CHECKED;

/* Input i of the body, which is v of g, becomes a literal if v is a constant of one element. */
void fused_take_constant(Graph *body, int i, const Graph *g, ValueId v);

#endif
