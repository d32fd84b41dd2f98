/* The gaps between blocks that are alive in one memory region: the smallest that fits is found in log n.
 *
 * Blocks are numbered by the caller, 0 to n - 1, and each is taken and released at most once. */
#ifndef DPX_FREE_GAPS_H
#define DPX_FREE_GAPS_H

#include <stdint.h>

#include "graph/base/arena.h"
#include "graph/base/status.h"

typedef struct {
    struct GapBlock *block; /* [n + 1]; the last one stands for the region's two ends */
    uint32_t n, root;
    size_t top; /* the highest end of any block so far */
} Gaps;

Status gaps_init(Gaps *g, uint32_t n, Arena *a) CHECKED;
/* The offset of block i: the bottom of the smallest gap that is large enough (of two, the lower one), else above all.
 */
size_t gaps_take(Gaps *g, uint32_t i, size_t bytes);
void gaps_release(Gaps *g, uint32_t i); /* block i has been taken */

#endif
