/* How LossScaleUpdate changes the scale of the loss: its attributes, for the kernels ref and cuda. */
#ifndef DPX_KERNELS_REF_LOSS_SCALE_H
#define DPX_KERNELS_REF_LOSS_SCALE_H

#include "graph/ir/graph.h"

typedef struct {
    double growth, backoff; /* factors: after `interval` good steps, after a bad one */
    int64_t interval;
} LossScale;

static inline LossScale loss_scale_read(const Node *n)
{
    return (LossScale){ node_float(n, "growth"), node_float(n, "backoff"), node_int(n, "interval") };
}

#endif
