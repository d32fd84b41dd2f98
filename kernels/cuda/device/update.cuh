/* The elements that a block updates in a launch over many tensors (update.h). */
#pragma once

#include "kernel.cuh"
#include "update.h"

/* Elements from..to of the tensor t. */
struct UpdateSpan {
    UpdateTensor t;
    i64 from, to;

    __device__ __forceinline__ explicit UpdateSpan(const UpdateTable &table) : t(table.tensor[table.which[blockIdx.x]])
    {
        from = ((i64)blockIdx.x - t.block) * UPDATE_WORK;
        to = from + UPDATE_WORK < t.count ? from + UPDATE_WORK : t.count;
    }
};

__device__ __forceinline__ bool on_boundary(const void *p) { return (u64)p % 16 == 0; }
