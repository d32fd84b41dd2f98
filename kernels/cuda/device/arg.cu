/* ArgMax and ArgMin along one axis of [outer, n, inner]: every element is read once, rows (inner = 1) in accesses of 16
 * bytes, columns by neighbouring threads.  NaN comes before every number; of equals the first comes, or the last. */
#include "line.h"
#include "order.cuh"

template <class T> __device__ __forceinline__ void take_element(Best &best, T x, i64 i, int smallest, int last)
{
    const u64 key = key_of(x);

    best.take(is_nan(x) ? KEY_FIRST : smallest ? ~key : key, last ? (u64)i : ~(u64)i);
}

__device__ __forceinline__ i64 index_of(const Best &best, int last) { return (i64)(last ? best.tie : ~best.tie); }

template <class T, class Team>
__device__ __forceinline__ void arg_rows(Team team, const LineBox &p, const T *x, i64 *y, int smallest, int last)
{
    const int V = Chunk<T>::size;

    for (i64 row = team.first(); team.base(row) < p.outer; row += team.stride()) {
        const i64 n = row < p.outer ? p.n : 0;
        const T *xs = x + (row < p.outer ? row : 0) * p.n;
        Best best = { 0, 0 };

        for (i64 at = (i64)team.rank() * V - row_offset(xs); at < n; at += (i64)team.size() * V) {
            const Vec<T, V> v = chunk_load<T, V>(xs, n, at, T());

#pragma unroll
            for (int j = 0; j < V; j++)
                if (at + j >= 0 && at + j < n)
                    take_element(best, v.at[j], at + j, smallest, last);
        }
        best = team.template all<First>(best);
        if (row < p.outer && team.rank() == 0)
            y[row] = index_of(best, last);
    }
}

/* Blocks of (32, R) threads: 32 neighbouring columns, their elements dealt to R threads each. */
template <class T>
__device__ __forceinline__ void arg_columns(const LineBox &p, const T *x, i64 *y, int smallest, int last)
{
    __shared__ Best part[LINE_WARPS][WARP];
    const i64 tiles = (p.inner + WARP - 1) / WARP;
    const int lane = threadIdx.x, r = threadIdx.y, R = blockDim.y;

    for (i64 tile = blockIdx.x; tile < p.outer * tiles; tile += gridDim.x) {
        const i64 o = tile / tiles, column = tile % tiles * WARP + lane;
        Best best = { 0, 0 };

        for (i64 k = r; column < p.inner && k < p.n; k += R)
            take_element(best, x[(o * p.n + k) * p.inner + column], k, smallest, last);
        __syncthreads();
        part[r][lane] = best;
        __syncthreads();
        for (int q = 1; r == 0 && q < R; q++)
            best.take(part[q][lane]);
        if (r == 0 && column < p.inner)
            y[o * p.inner + column] = index_of(best, last);
    }
}

#define ARG(S, T)                                                                                      \
    KERNEL(arg_lanes_##S, (const LineBox p, const T *x, i64 *y, int smallest, int last, int lanes))    \
    {                                                                                                  \
        arg_rows<T>(LaneTeam{ lanes }, p, x, y, smallest, last);                                       \
    }                                                                                                  \
    KERNEL_OF(ROW_BLOCK, arg_block_##S, (const LineBox p, const T *x, i64 *y, int smallest, int last)) \
    {                                                                                                  \
        arg_rows<T>(BlockTeam{}, p, x, y, smallest, last);                                             \
    }                                                                                                  \
    KERNEL(arg_columns_##S, (const LineBox p, const T *x, i64 *y, int smallest, int last))             \
    {                                                                                                  \
        arg_columns<T>(p, x, y, smallest, last);                                                       \
    }

ARG(f32, float)
ARG(f64, double)
ARG(f16, f16)
ARG(bf16, bf16)
ARG(i8, signed char)
ARG(i16, short)
ARG(i32, int)
ARG(i64, i64)
ARG(u8, unsigned char)
ARG(u16, unsigned short)
ARG(u32, u32)
ARG(u64, u64)
