/* The sum of exponentials in one pass: the largest so far, and the sum relative to it. */
#pragma once

#include "math.cuh"
#include "row.cuh"

/* The largest so far and the sum of e^(x - largest). */
template <class A> struct Running {
    A max, sum;

    __device__ __forceinline__ void add(A x)
    {
        if (x > max) {
            sum = sum * exponential(max - x) + 1;
            max = x;
        } else {
            sum += x == max ? 1 : exponential(x - max); /* -inf after -inf: not NaN, a larger one may follow */
        }
    }
    /* The sum as it is when the largest is `top`. */
    __device__ __forceinline__ A scaled(A top) const { return max == top ? sum : sum * exponential(max - top); }
    /* Of two parts; a part without elements has max -inf and sum 0. */
    __device__ __forceinline__ void merge(const Running &other)
    {
        const A top = larger(other.max, max);

        sum = scaled(top) + other.scaled(top);
        max = top;
    }
};

template <class A> __device__ __forceinline__ Running<A> lane_xor(const Running<A> &v, int o)
{
    return { __shfl_xor_sync(ALL_LANES, v.max, o), __shfl_xor_sync(ALL_LANES, v.sum, o) };
}
