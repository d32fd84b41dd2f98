/* Random numbers of a node: the state of RandomDropout and Random, for the kernels ref and cpu. */
#ifndef DPX_KERNELS_REF_RANDOM_DRAW_H
#define DPX_KERNELS_REF_RANDOM_DRAW_H

#include "kernels/backend.h"
#include "graph/base/philox.h"

typedef struct {
    uint64_t seed;
    uint32_t key;
    PhiloxSpan span; /* of the output */
    double ratio;    /* RandomDropout */
    double a, b;     /* Random: mean and deviation if normal, else the bounds */
    bool normal;
} RandomDraw;

/* Where the output of shape s, a part of all random numbers, lies among these. */
static inline PhiloxSpan random_span(const Node *n, const Shape *s)
{
    const int axis = (int)node_int(n, "split_axis");

    return axis < 0 ? philox_span(1, shape_numel(s), 1, shape_numel(s), 0)
                    : philox_span(shape_count(s, 0, axis), s->dim[axis], shape_count(s, axis + 1, s->rank),
                                  node_int(n, "split_dim"), node_int(n, "split_offset"));
}

Status random_draw_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;
static inline PhiloxKey random_key(const RandomDraw *p, const Tensor *draw)
{
    return (PhiloxKey){ p->seed, (uint32_t) * (const int64_t *)draw->data, p->key };
}
/* The factor of elements that a dropout keeps. */
static inline double dropout_scale(double ratio) { return ratio < 1 ? 1 / (1 - ratio) : 0; }

#endif
