/* What the kernels of Fused share: kernels/cuda/fused.c, and with a sum kernels/cuda/fused_sum.c. */
#ifndef DPX_CUDA_FUSED_H
#define DPX_CUDA_FUSED_H

#include "graph/graph.h"

/* The program of n (fused_body) with constants of one element as literals.  The caller frees it. */
Status fused_kernel_body(Graph **out, const Graph *g, const Node *n) CHECKED;

#endif
