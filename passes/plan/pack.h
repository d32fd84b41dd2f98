/* Offsets in one memory region for buffers that live at different times. */
#ifndef DPX_PACK_H
#define DPX_PACK_H

#include <stdint.h>

#include "graph/base/arena.h"
#include "graph/base/status.h"

typedef struct {
    size_t bytes;         /* pack rounds it up to `align` */
    uint32_t first, last; /* alive from first to last, both included */
    size_t offset;        /* set by pack */
} PackItem;

/* Sets every offset so that no two items that are alive at one time overlap, multiples of `align`, a power of two;
 * `total` is the region's size, `bound` the largest sum of items alive at one time, below which no packing can go. */
Status pack(PackItem *item, uint32_t n, size_t align, size_t *total, size_t *bound, Arena *scratch) CHECKED;

#endif
