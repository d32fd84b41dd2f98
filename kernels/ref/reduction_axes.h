/* The axes of a reduction that are kept, or those that are reduced: for the kernels ref and cpu. */
#ifndef DPX_KERNELS_REF_REDUCTION_AXES_H
#define DPX_KERNELS_REF_REDUCTION_AXES_H

#include "graph/tensor/shape.h"

/* Innermost first; strides in elements of the tensor that is reduced. */
typedef struct {
    int n;
    int64_t dim[MAX_RANK], stride[MAX_RANK];
} ReductionAxes;

static inline void reduction_axes_push(ReductionAxes *a, int64_t dim, int64_t stride)
{
    a->dim[a->n] = dim;
    a->stride[a->n++] = stride;
}

#endif
