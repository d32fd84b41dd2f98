/* What a block works on in a launch over many tensors (update.h). */
#pragma once

#include "kernel.cuh"
#include "update.h"

/* The tensor that this block works on. */
__device__ __forceinline__ int tensor_of(const UpdateTable &t)
{
    int low = 0, high = t.n;

    while (high - low > 1) {
        const int middle = (low + high) / 2;

        if (t.block[middle] <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

__device__ __forceinline__ bool on_boundary(const void *p) { return (u64)p % 16 == 0; }
