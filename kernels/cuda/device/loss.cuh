/* Code shared by losses: sums of two numbers over all blocks, and class numbers. */
#pragma once

#include "loss.h"
#include "row.cuh"

template <class T> __device__ __forceinline__ void put_sum(void *y, double sum) { *(T *)y = (T)sum; }

/* b may be NULL. */
template <class T> __device__ __forceinline__ void put_sums(void *a, void *b, double sum, double other)
{
    put_sum<T>(a, sum);
    if (b)
        put_sum<T>(b, other);
}

/* The whole block's sums, as results or as its part of them. */
template <class T>
__device__ __forceinline__ void block_sums(void *a, void *b, double *partial, double sum, double other)
{
    sum = block_all<Sum>(sum);
    other = block_all<Sum>(other);
    if (threadIdx.x)
        return;
    if (gridDim.x == 1) {
        put_sums<T>(a, b, sum, other);
    } else {
        partial[2 * blockIdx.x] = sum;
        partial[2 * blockIdx.x + 1] = other;
    }
}

__device__ __forceinline__ i64 label_of(const NllBox &p, const void *target, i64 s)
{
    return p.wide ? ((const i64 *)target)[s] : ((const int *)target)[s];
}
