/* The choice of kernel for whole rows: rows of 16-bit elements that fill their 16-byte chunks. */
#include "kernels/cuda/rows.h"

#include <stdio.h>

enum { LANE_CHUNKS = 6, BLOCK_CHUNKS = 4, FEWEST_CHUNKS = WARP_SIZE / 2 };

Status cuda_whole_rows(WholeRows *w, const KernelCtx *ctx, const char *base, DType t, int64_t rows, int64_t n)
{
    const int64_t chunks = n / cuda_chunk(t), each = (chunks + WARP_SIZE - 1) / WARP_SIZE, small = 256;
    char name[64];

    *w = (WholeRows){ 0 };
    if (dtype_size(t) != 2 || n % cuda_chunk(t) || chunks <= FEWEST_CHUNKS || chunks > BLOCK_CHUNKS * ROW_THREADS)
        return ST_OK;
    if (each <= LANE_CHUNKS) {
        snprintf(name, sizeof name, "%s_whole%d", base, each == 5 ? 6 : (int)each);
        w->threads = (unsigned)small;
        w->blocks = cuda_blocks(rows, small / WARP_SIZE, MOST_BLOCKS);
    } else {
        snprintf(name, sizeof name, "%s_whole_block", base);
        w->threads = (unsigned)((each + BLOCK_CHUNKS - 1) / BLOCK_CHUNKS * WARP_SIZE);
        w->blocks = cuda_blocks(rows, 1, MOST_BLOCKS);
    }
    return cuda_kernel(&w->kernel, ctx, name, t);
}
