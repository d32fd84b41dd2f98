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

/* KERNEL_OF with so few registers a thread that `blocks` blocks fit on a multiprocessor at once. */
#ifndef DPX_SIM
#define KERNEL_FIT(threads, blocks, name, params) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name params
#else
#define KERNEL_FIT(threads, blocks, name, params) KERNEL_OF(threads, name, params)
#endif

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
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }

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

/* ---- whole rows of float, f16 or bf16: n is a multiple of V and every row begins on a 16-byte boundary, so that no
 * element is masked ---- */

/* Two neighbours of 16 bits in one word, the first in the lower half. */
template <class T> __device__ __forceinline__ void unpack_pair(u32 w, float &a, float &b)
{
    a = to_float(T{ (unsigned short)w });
    b = to_float(T{ (unsigned short)(w >> 16) });
}
template <> __device__ __forceinline__ void unpack_pair<bf16>(u32 w, float &a, float &b)
{
    a = __uint_as_float(w << 16);
    b = __uint_as_float(w & 0xffff0000u);
}
template <class T> __device__ __forceinline__ u32 pack_pair(float a, float b)
{
    return from_float<T>(a).bits | (u32)from_float<T>(b).bits << 16;
}
#ifndef DPX_SIM
template <> __device__ __forceinline__ u32 pack_pair<f16>(float a, float b)
{
    u32 w;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
    return w;
}
template <> __device__ __forceinline__ u32 pack_pair<bf16>(float a, float b)
{
    u32 w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
    return w;
}
#endif

/* A chunk as it is loaded. */
typedef Vec<u32, 4> Words;

/* A chunk's elements of T and float: get() unpacks them, put() rounds them to nearest even. */
template <class T> struct Packed;

template <> struct Packed<float> {
    static __device__ __forceinline__ void get(float (&y)[4], const Words &w)
    {
#pragma unroll
        for (int j = 0; j < 4; j++)
            y[j] = __uint_as_float(w.at[j]);
    }
    static __device__ __forceinline__ void put(Words &w, const float (&y)[4])
    {
#pragma unroll
        for (int j = 0; j < 4; j++)
            w.at[j] = __float_as_uint(y[j]);
    }
};

template <class T> struct PackedHalves {
    static __device__ __forceinline__ void get(float (&y)[8], const Words &w)
    {
#pragma unroll
        for (int j = 0; j < 4; j++)
            unpack_pair<T>(w.at[j], y[2 * j], y[2 * j + 1]);
    }
    static __device__ __forceinline__ void put(Words &w, const float (&y)[8])
    {
#pragma unroll
        for (int j = 0; j < 4; j++)
            w.at[j] = pack_pair<T>(y[2 * j], y[2 * j + 1]);
    }
};
template <> struct Packed<f16> : PackedHalves<f16> {
};
template <> struct Packed<bf16> : PackedHalves<bf16> {
};

/* Chunks rank, rank + size ... of a row of `chunks`; `fill` for those that the row does not have. */
template <int K, class T, class Team>
__device__ __forceinline__ void whole_load(Words (&w)[K], Team team, const T *row, int chunks, u32 fill)
{
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int c = team.rank() + k * team.size();

        w[k] = Words{ { fill, fill, fill, fill } };
        if (c < chunks)
            w[k] = ((const Words *)row)[c];
    }
}

template <class T> __device__ __forceinline__ void whole_store(T *row, int chunk, const float (&y)[Chunk<T>::size])
{
    Words w;

    Packed<T>::put(w, y);
    ((Words *)row)[chunk] = w;
}

/* ---- copies that nobody waits for while they are under way ---- */

/* copy_begin() copies 16 bytes from global memory to shared memory.  The copies that a thread began since its last
 * copy_group() are a group; copy_wait<N>() waits for all of the thread's groups but the last N.  Only that thread sees
 * the copies then. */
#ifdef DPX_SIM
__device__ __forceinline__ void copy_begin(Words *to, const Words *from) { *to = *from; }
__device__ __forceinline__ void copy_group() {}
template <int N> __device__ __forceinline__ void copy_wait() {}
#else
__device__ __forceinline__ void copy_begin(Words *to, const Words *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}
__device__ __forceinline__ void copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
#endif

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

/* A whole warp has a row: its threads agree on every branch. */
struct WarpTeam {
    __device__ __forceinline__ int rank() const { return threadIdx.x % WARP; }
    __device__ __forceinline__ int size() const { return WARP; }
    __device__ __forceinline__ i64 first() const { return (i64)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP; }
    __device__ __forceinline__ i64 stride() const { return (i64)gridDim.x * (blockDim.x / WARP); }
    template <class Op, class A> __device__ __forceinline__ A all(A v) const { return lanes_all<Op>(v, WARP); }
};

struct BlockTeam {
    __device__ __forceinline__ int rank() const { return threadIdx.x; }
    __device__ __forceinline__ int size() const { return blockDim.x; }
    __device__ __forceinline__ i64 first() const { return blockIdx.x; }
    __device__ __forceinline__ i64 stride() const { return gridDim.x; }
    __device__ __forceinline__ i64 base(i64 row) const { return row; }
    template <class Op, class A> __device__ __forceinline__ A all(A v) const { return block_all<Op>(v); }
};
