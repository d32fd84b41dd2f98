/* Shared by the reference kernels: plain loops that say what an operator means. */
#ifndef DPX_KERNELS_REF_H
#define DPX_KERNELS_REF_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"

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

/* Prepares kernels of many tensors: the state is their number, an int. */
static inline Status ref_prepare_count(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    int *count = malloc(sizeof *count);

    (void)ctx;
    (void)g;
    if (!count)
        return FAIL_NOMEM();
    *count = n->n_in;
    *state = count;
    return ST_OK;
}

#endif
