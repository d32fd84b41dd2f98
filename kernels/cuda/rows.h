/* Launches of kernels on rows of elements (kernels/cuda/device/row.cuh): the row's length decides which threads share
 * it. */
#ifndef DPX_CUDA_ROWS_H
#define DPX_CUDA_ROWS_H

#include "kernels/cuda/cuda.h"

enum {
    WARP_SIZE = 32,
    ROW_THREADS = 512, /* of a block at most: each may then use 128 registers */
    MOST_BLOCKS = 1 << 20
};

/* Elements that a tensor at `p` begins behind a 16-byte boundary. */
static inline int cuda_offset(const void *p, DType t) { return (int)((uintptr_t)p % 16 / dtype_size(t)); }
static inline int cuda_chunk(DType t) { return (int)(16 / dtype_size(t)); }

typedef struct {
    int per_thread; /* chunks a thread has to hold: 1, 4; 0: more, the row does not fit into registers */
    int lanes;      /* that share a row; 0: a block does */
    unsigned blocks, threads;
} RowLaunch;

/* `rows` rows of n elements of type t, the first at x. */
static inline RowLaunch cuda_rows(const void *x, DType t, int64_t rows, int64_t n)
{
    const int v = cuda_chunk(t), offset = n % v ? v - 1 : cuda_offset(x, t), small = 256;
    const int64_t chunks = (n + offset + v - 1) / v;
    RowLaunch l = { 1, 1, 0, (unsigned)small };

    if (chunks <= 4 * WARP_SIZE) {
        l.per_thread = chunks <= WARP_SIZE ? 1 : 4;
        while (l.lanes < chunks && l.lanes < WARP_SIZE)
            l.lanes *= 2;
        l.blocks = cuda_blocks(rows, small / l.lanes, MOST_BLOCKS);
        return l;
    }
    l.lanes = 0;
    l.per_thread = chunks <= 4 * ROW_THREADS ? 4 : 0;
    l.threads = l.per_thread ? (unsigned)((chunks + 4 * WARP_SIZE - 1) / (4 * WARP_SIZE) * WARP_SIZE) : ROW_THREADS;
    l.blocks = cuda_blocks(rows, 1, MOST_BLOCKS);
    return l;
}

/* Launch of the kernel for whole rows; kernel is NULL where the type or the length has none. */
typedef struct {
    GpuKernel *kernel;
    unsigned blocks, threads;
} WholeRows;

/* Finds the kernel "<base>_whole<K>" (a warp has a row, K chunks a lane) or "<base>_whole_block" for `rows` rows of n
 * elements.  The caller launches it only if all tensors begin on 16-byte boundaries. */
Status cuda_whole_rows(WholeRows *w, const KernelCtx *ctx, const char *base, DType t, int64_t rows, int64_t n);

#endif
