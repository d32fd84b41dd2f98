/* Softmax by rows of memory and by columns side by side: shared by Softmax, LogSoftmax and the cross-entropy. */
#ifndef DPX_KERNELS_CPU_CPU_SOFTMAX_H
#define DPX_KERNELS_CPU_CPU_SOFTMAX_H

#include <tgmath.h>

#include "graph/tensor/shape.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/vmath.h"

/* Columns taken together; elements summed before they join the rest; maxima of a row kept side by side. */
enum { SOFTMAX_TILE = 64, SOFTMAX_BLOCK = 256, SOFTMAX_LANES = 16 };

/* x[outer, n, inner]: a task is the columns of one tile, or a row where inner is 1. */
typedef struct {
    int64_t n, inner, tiles, tasks;
    int team;
} SoftmaxPlan;

static inline SoftmaxPlan softmax_plan(const Shape *x, int axis, const KernelCtx *ctx)
{
    const int64_t inner = shape_count(x, axis + 1, x->rank), tiles = (inner + SOFTMAX_TILE - 1) / SOFTMAX_TILE;

    return (SoftmaxPlan){ x->dim[axis], inner, tiles, shape_count(x, 0, axis) * tiles, team_size(ctx, shape_numel(x)) };
}

#define BODY "kernels/cpu/cpu_softmax.inc"
#include "kernels/each_type.inc"

#endif
