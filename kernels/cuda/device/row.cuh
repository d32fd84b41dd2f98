/* Rows of elements held in registers, and the teams of threads that share a row.
 *
 * A row is read in chunks of 16 bytes.  Chunks lie on 16-byte boundaries of the row they were laid out for, wherever it
 * begins: chunk c covers elements [c V - offset, c V - offset + V), offset being how far the row begins behind a
 * boundary, and what lies outside of [0, n) is masked.  So rows of any length take whole accesses everywhere but at
 * their two ends. A second tensor whose rows begin elsewhere is read element by element: correct, slower.
 *
 * Sums over a team are taken in an order that its size fixes: the same bits on every run. */
#pragma once

#include "kernel.cuh"

enum {
    WARP = 32,
    ROW_BLOCK = 512
}; /* ROW_BLOCK: threads that share a row at most (ROW_THREADS of kernels/cuda/rows.h) */
#define ALL_LANES 0xffffffffu

/* Elements of 16 bytes. */
template <class T> struct Chunk {
    static const int size = 16 / (int)sizeof(T);
};

template <class A> __device__ __forceinline__ A infinity_of()
{
    A big = (A)3e38f;

    for (int i = 0; i < 4; i++)
        big *= big;
    return big;
}

template <class A> __device__ __forceinline__ A larger(A a, A b) { return a > b ? a : b; }

/* ---- chunks ---- */

/* How many elements behind a 16-byte boundary the row begins. */
template <class T> __device__ __forceinline__ int row_offset(const T *row)
{
    return (int)((u64)row / sizeof(T) % Chunk<T>::size);
}

template <class T, int V> __device__ __forceinline__ bool chunk_whole(const T *row, i64 n, i64 at)
{
    return at >= 0 && at + V <= n && (u64)(row + at) % (V * sizeof(T)) == 0;
}

/* Elements [at, at + V) of a row of n as they are stored; `fill` where there is none. */
template <class T, int V> __device__ __forceinline__ Vec<T, V> chunk_load(const T *row, i64 n, i64 at, T fill)
{
    Vec<T, V> v;

    if (chunk_whole<T, V>(row, n, at))
        return *(const Vec<T, V> *)(row + at);
#pragma unroll
    for (int j = 0; j < V; j++)
        v.at[j] = at + j >= 0 && at + j < n ? row[at + j] : fill;
    return v;
}

template <class T, int V> __device__ __forceinline__ void chunk_store(T *row, i64 n, i64 at, const Vec<T, V> &v)
{
    if (chunk_whole<T, V>(row, n, at)) {
        *(Vec<T, V> *)(row + at) = v;
        return;
    }
#pragma unroll
    for (int j = 0; j < V; j++)
        if (at + j >= 0 && at + j < n)
            row[at + j] = v.at[j];
}

/* ---- teams ---- */

struct Sum {
    template <class A> static __device__ __forceinline__ A of(A a, A b) { return a + b; }
};
struct Larger {
    template <class A> static __device__ __forceinline__ A of(A a, A b) { return larger(a, b); }
};

template <class A> __device__ __forceinline__ A lane_xor(A v, int o) { return __shfl_xor_sync(ALL_LANES, v, o); }

/* `lanes` neighbours of a warp, a power of two; all lanes of the warp take part at the same time. */
template <class Op, class A> __device__ __forceinline__ A lanes_all(A v, int lanes)
{
    for (int o = lanes / 2; o; o /= 2)
        v = Op::of(v, lane_xor(v, o));
    return v;
}

/* Over the whole block, whose size is a multiple of the warp's; every thread gets the result. */
template <class Op, class A> __device__ __forceinline__ A block_all(A v)
{
    __shared__ A part[WARP];
    const int lane = threadIdx.x % WARP, warps = blockDim.x / WARP;

    v = lanes_all<Op>(v, WARP);
    __syncthreads(); /* `part` may still be read from the call before */
    if (lane == 0)
        part[threadIdx.x / WARP] = v;
    __syncthreads();
    v = part[0];
    for (int w = 1; w < warps; w++)
        v = Op::of(v, part[w]);
    return v;
}

/* Who computes one row, and which rows this thread goes through: first(), first() + stride() ...  The loop runs while
 * base(row) < rows, which all threads that meet in a reduction agree on; a row >= rows is to be masked. */
struct LaneTeam {
    int lanes;

    __device__ __forceinline__ int rank() const { return threadIdx.x % lanes; }
    __device__ __forceinline__ int size() const { return lanes; }
    __device__ __forceinline__ i64 first() const
    {
        return (i64)blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes;
    }
    __device__ __forceinline__ i64 stride() const { return (i64)gridDim.x * (blockDim.x / lanes); }
    __device__ __forceinline__ i64 base(i64 row) const { return row - threadIdx.x / lanes; }
    template <class Op, class A> __device__ __forceinline__ A all(A v) const { return lanes_all<Op>(v, lanes); }
};

struct BlockTeam {
    __device__ __forceinline__ int rank() const { return threadIdx.x; }
    __device__ __forceinline__ int size() const { return blockDim.x; }
    __device__ __forceinline__ i64 first() const { return blockIdx.x; }
    __device__ __forceinline__ i64 stride() const { return gridDim.x; }
    __device__ __forceinline__ i64 base(i64 row) const { return row; }
    template <class Op, class A> __device__ __forceinline__ A all(A v) const { return block_all<Op>(v); }
};
