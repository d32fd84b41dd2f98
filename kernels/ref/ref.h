/* Shared by the reference kernels: plain loops that say what an operator means. */
#ifndef DPX_KERNELS_REF_H
#define DPX_KERNELS_REF_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/typed.h"

/* X(DType, C type) over native element types, for typed dispatch. */
#define EACH_FLOAT(X)    \
    X(DT_FLOAT32, float) \
    X(DT_FLOAT64, double)
#define EACH_SIGNED(X)   \
    X(DT_INT8, int8_t)   \
    X(DT_INT16, int16_t) \
    X(DT_INT32, int32_t) \
    X(DT_INT64, int64_t)
#define EACH_UNSIGNED(X)   \
    X(DT_UINT8, uint8_t)   \
    X(DT_UINT16, uint16_t) \
    X(DT_UINT32, uint32_t) \
    X(DT_UINT64, uint64_t)
#define EACH_INT(X) EACH_SIGNED(X) EACH_UNSIGNED(X)
#define EACH_NUMERIC(X) EACH_FLOAT(X) EACH_INT(X)

/* Prepares kernels that go along the axis of attribute `axis` of input 0: the state is its AxisLines. */
static inline Status ref_prepare_lines(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const AxisLines lines = shape_lines(&in_value(g, n, 0)->shape, (int)node_int(n, "axis"));

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
