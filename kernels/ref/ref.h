/* Shared by the reference kernels: plain loops that define an operator. */
#ifndef DPX_KERNELS_REF_H
#define DPX_KERNELS_REF_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/typed.h"

/* Prepares kernels that go along the axis of attribute `axis` of input 0: the state is its AxisLines. */
static inline Status ref_prepare_lines(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const AxisLines lines = shape_lines(in_value(g, n, 0)->shape, (int)node_int(n, "axis"));

    (void)ctx;
    return kernel_state(state, &lines, sizeof lines);
}

/* Prepares kernels of many tensors: the state is their number, an int. */
static inline Status ref_prepare_count(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    (void)g;
    return kernel_state(state, &n->n_in, sizeof n->n_in);
}

#endif
