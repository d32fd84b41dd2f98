/* Where the elements of a reduction are (reduction.h). */
#pragma once
#include "kernels/cuda/device/kernel.cuh"
#include "kernels/cuda/device/reduction.h"

__device__ __forceinline__ i64 walk(const Walk &w, u32 i)
{
    i64 offset = 0;

    for (int d = w.n - 1; d > 0; d--) {
        const u32 next = i / w.dim[d];

        offset += (i - next * w.dim[d]) * w.stride[d];
        i = next;
    }
    return w.n ? offset + i * w.stride[0] : 0;
}

/* Part p of n of [0, all). */
__device__ __forceinline__ void part_of(u32 all, u32 p, u32 n, u32 *from, u32 *to)
{
    const u32 each = (all + n - 1) / n;

    *from = all < p * each ? all : p * each;
    *to = all < *from + each ? all : *from + each;
}
