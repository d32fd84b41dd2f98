/* Filling the tables of tensors that kernels take over many of them (kernels/cuda/device/update.h). */
#ifndef DPX_CUDA_TENSORS_H
#define DPX_CUDA_TENSORS_H

#include <stdint.h>

#include "kernels/cuda/device/update.h"

/* Adds a tensor of `count` elements; the caller fills in *out.  The table must have room. */
static inline UpdateTensors *add_tensor(UpdateTable *t, int64_t count)
{
    t->count[t->n] = count;
    t->block[t->n + 1] = t->block[t->n] + (unsigned)((count + UPDATE_WORK - 1) / UPDATE_WORK);
    return &t->tensor[t->n++];
}

#endif
