/* The sizes of LayerNormalization and its gradient, for the kernels ref, cpu and cuda. */
#ifndef DPX_KERNELS_REF_LAYER_NORM_H
#define DPX_KERNELS_REF_LAYER_NORM_H

#include "graph/ops/layernorm.h"
#include "kernels/backend.h"

typedef struct {
    int64_t rows, n; /* x[rows, n] */
    double epsilon;
    bool has_bias, has_mean, has_inv; /* of LayerNormalization: input 2, outputs 1 and 2 */
    bool has_added;                   /* of the gradient */
} LayerNorm;

static inline LayerNorm layer_norm_read(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    const int axis = (int)node_int(n, "axis");

    return (LayerNorm){ .rows = shape_count(x, 0, axis),
                        .n = shape_count(x, axis, x->rank),
                        .epsilon = node_float(n, "epsilon"),
                        .has_bias = has_in(n, 2),
                        .has_mean = has_out(n, 1),
                        .has_inv = has_out(n, 2),
                        .has_added = has_in(n, LAYER_NORM_GRAD_ADDED) };
}

/* Are scale and bias of the full normalised size?  The operator's lowering stretches smaller ones. */
static inline bool layer_norm_full_size(const Graph *g, const Node *n)
{
    const int64_t size = layer_norm_read(g, n).n;

    return shape_numel(in_value(g, n, 1)->shape) == size &&
           (!has_in(n, 2) || shape_numel(in_value(g, n, 2)->shape) == size);
}

#endif
