/* The state of the kernels of Interpolate and its gradient. */
#ifndef DPX_KERNELS_REF_REF_INTERPOLATE_H
#define DPX_KERNELS_REF_REF_INTERPOLATE_H

#include "kernels/ref/ref.h"

/* x[outer, size, inner], y[outer, n, inner]; tables [n, taps]. */
typedef struct {
    int64_t outer, size, n, inner, taps;
} InterpolatePlan;

Status interpolate_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;

#endif
