/* Two numbers of each channel from all data in one launch: blocks write those of their chunk, and of the blocks that
 * share channels the last to finish merges the chunks.  The order is fixed by the shapes alone.
 *
 * With the channels last a block has (columns, lines) threads, V channels for each column: blockIdx.x counts columns,
 * blockIdx.y chunks.  Line l of chunk k has rows k lines + l, then every (chunks * lines)-th, counted from the end of
 * the data: what was written before this kernel was written from front to back, so its end is still in the L2 cache,
 * and what reads it after this kernel finds its beginning there. */
#pragma once

#include "index.cuh"
#include "row.cuh"

/* Is this the last to come here of `blocks` blocks that count on `ticket`?  It may read what all of them wrote before.
 * It leaves 0 in the ticket, as the first one found it.  Called by the whole block. */
__device__ __forceinline__ bool last_block(u32 *ticket, u32 blocks)
{
    __shared__ bool last;

    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        __threadfence();
        last = atomicAdd(ticket, 1u) == blocks - 1;
        if (last)
            *ticket = 0;
        __threadfence();
    }
    __syncthreads();
    return last;
}

/* Where a thread stands when the channels are last. */
template <int V> struct LastPlace {
    i64 first;               /* channel of the block */
    int columns, t, threads; /* t: number of the thread */
    u32 row, rows, step;     /* the thread's first row, all, from one to the next */
    bool inside;             /* has the column channels? */

    __device__ __forceinline__ LastPlace(const ChannelBox &p)
    {
        columns = blockDim.x;
        t = threadIdx.y * blockDim.x + threadIdx.x;
        threads = blockDim.x * blockDim.y;
        first = (i64)blockIdx.x * columns * V;
        row = blockIdx.y * blockDim.y + threadIdx.y;
        rows = (u32)p.units;
        step = gridDim.y * blockDim.y;
        inside = first + threadIdx.x * V < p.channels;
    }
    /* The place of the thread's columns in row `r`, counted from the end; a row beyond the data is row 0. */
    __device__ __forceinline__ i64 at(const ChannelBox &p, u32 r) const
    {
        return (i64)(rows - 1 - min(r, rows - 1)) * p.channels + first + threadIdx.x * V;
    }
    /* How many of the rows r, r + step .. r + (NORM_GROUP - 1) step there are. */
    __device__ __forceinline__ int count(u32 r) const
    {
        int n = 0;

#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            n += r + k * step < rows;
        return n;
    }
    /* Rows of chunk k. */
    __device__ __forceinline__ u32 of_chunk(u32 k) const
    {
        const u32 lines = blockDim.y, whole = rows / lines, turns = whole / gridDim.y, left = whole - turns * gridDim.y,
                  rest = rows - whole * lines;

        return (turns + (k < left)) * lines + (k == left ? rest : 0);
    }
};

/* Numbers [warps][V][columns] of a block in shared memory, so that neither rows nor channels meet in a bank. */
template <class A, int V, int THREADS> struct ByWarp {
    enum { COLUMNS = V > 1 ? NORM_COLUMNS : 32, PITCH = COLUMNS + 4 };
    A at[THREADS / 32][V * PITCH];

    __device__ __forceinline__ A &of(int warp, int column, int j) { return at[warp][j * PITCH + column]; }
};
