/* The sum of exponentials in one pass: the largest so far, and the sum relative to it. */
#pragma once

#include "math.cuh"
#include "row.cuh"

/* e^x for sums and results of 16 bits: two instructions.  Its relative error is below 2^-21 (1 + |x|); what is below
 * 2^-126 becomes 0. */
__device__ __forceinline__ float exponential_fast(float x)
{
    const float scaled = x * 1.4426950408889634f;
#ifndef DPX_SIM
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(scaled));
    return y;
#else
    return exp2f(scaled);
#endif
}

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
    /* Merges two parts; a part without elements has max -inf and sum 0. */
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

/* V elements more: one rescaling, then an exponential each.  While the largest is infinite, the sum is relative to 0:
 * it stays 0 after -infinity alone, and becomes infinite with +infinity. */
template <int V, class A> __device__ __forceinline__ void add_all(Running<A> &r, const A (&x)[V])
{
    A top = r.max, base;

#pragma unroll
    for (int j = 0; j < V; j++)
        top = larger(x[j], top);
    if (top > r.max) {
        r.sum *= exponential(r.max - top);
        r.max = top;
    }
    base = top - top == 0 ? top : 0;
#pragma unroll
    for (int j = 0; j < V; j++)
        r.sum += exponential(x[j] - base);
}

/* Merges the parts of a whole team, with one exponential a thread; equal to merge() in any order. */
template <class Team, class A> __device__ __forceinline__ Running<A> running_all(Team team, const Running<A> &r)
{
    const A top = team.template all<Larger>(r.max);

    return { top, team.template all<Sum>(r.scaled(top)) };
}
