/* How generated kernels that end in a sum (kernels/cuda/generate_text.c) go through their elements: as reduce.cu does,
 * in runs or in columns and in parts, but what is added up is computed on the way, and stored where it is an output.
 *
 * A Program computes the N elements from `at` on, in the order in which they lie in memory, when it is called: it loads
 * them all before it stores one.  Each is computed once, by one thread; so an output may lie over an input of its size.
 * Which thread adds what depends on shapes alone. */
#pragma once
#include "kernels/cuda/device/elementwise.cuh"
#include "kernels/cuda/device/walk.h"

namespace fused
{

/* Sums a thread's part of an output of runs, which `lanes` threads share. */
template <class P>
__device__ __forceinline__ typename P::Sum run_part(const P &f, const Reduction &r, int lanes, i64 item)
{
    const i64 base = walk(r.kept, (u32)(item / r.parts));
    typename P::Sum sum = 0;
    u32 from, to;

    part_of((u32)(r.runs * r.chunks), (u32)(item % r.parts), r.parts, &from, &to);
    for (u32 c = from + threadIdx.x % lanes; c < to; c += lanes) {
        const u32 run = c / r.chunks;
        typename P::Sum v[P::N];

        f(base + walk(r.reduced, run) + (i64)(c - run * r.chunks) * P::N, v);
#pragma unroll
        for (int k = 0; k < P::N; k++)
            sum += v[k];
    }
    return sum;
}

/* Without parts y is the result, else partial[output][part]. */
template <class P, class Y>
__device__ __forceinline__ void sum_runs(const P &f, Y *y, typename P::Sum *partial, const Reduction &r, int lanes)
{
    const i64 items = r.outputs * r.parts, teams = blockDim.x / lanes;

    for (i64 first = blockIdx.x * teams; first < items; first += gridDim.x * teams) {
        const i64 item = first + threadIdx.x / lanes;
        typename P::Sum sum = 0;

        if (item < items)
            sum = run_part(f, r, lanes, item);
        for (int o = lanes / 2; o; o /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
        if (item >= items || threadIdx.x % lanes)
            continue;
        if (r.parts == 1)
            y[item] = ew::narrow<Y>(sum);
        else
            partial[item] = sum;
    }
}

/* Sums the part of N columns that this row of threads has. */
template <class P>
__device__ __forceinline__ void column_part(const P &f, typename P::Sum (&sum)[P::N], const Reduction &r, i64 base,
                                            u32 part)
{
    u32 from, to;

    part_of((u32)r.n, part, r.parts, &from, &to);
    for (u32 k = from + threadIdx.y; k < to; k += blockDim.y) {
        typename P::Sum v[P::N];

        f(base + walk(r.reduced, k), v);
#pragma unroll
        for (int j = 0; j < P::N; j++)
            sum[j] += v[j];
    }
}

/* Blocks of (X, R) threads: X N neighbouring columns, whose elements are dealt to R. */
template <class P, class Y>
__device__ __forceinline__ void sum_columns(const P &f, Y *y, typename P::Sum *partial, const Reduction &r)
{
    typedef typename P::Sum Sum;
    DYNAMIC_SHARED(Sum, shared); /* [R][X][N] */
    const i64 groups = r.inner / P::N, tiles = (groups + blockDim.x - 1) / blockDim.x, outer = r.outputs / r.inner;

    for (i64 item = blockIdx.x; item < outer * tiles * r.parts; item += gridDim.x) {
        const i64 tile = item / r.parts % tiles, o = item / r.parts / tiles, group = tile * blockDim.x + threadIdx.x;
        const u32 part = (u32)(item % r.parts);
        Sum sum[P::N] = {};

        if (group < groups)
            column_part(f, sum, r, walk(r.kept, (u32)o) + group * P::N, part);
        __syncthreads(); /* `shared` may still be read from the tile before */
#pragma unroll
        for (int j = 0; j < P::N; j++)
            shared[(threadIdx.y * blockDim.x + threadIdx.x) * P::N + j] = sum[j];
        __syncthreads();
        for (u32 c = threadIdx.y * blockDim.x + threadIdx.x; c < blockDim.x * P::N; c += blockDim.x * blockDim.y) {
            const i64 column = tile * blockDim.x * P::N + c, out = o * r.inner + column;
            Sum all = shared[c];

            if (column >= r.inner)
                continue;
            for (u32 q = 1; q < blockDim.y; q++)
                all += shared[q * blockDim.x * P::N + c];
            if (r.parts == 1)
                y[out] = ew::narrow<Y>(all);
            else
                partial[out * r.parts + part] = all;
        }
    }
}

} // namespace fused
