/* Strided copies that are planned once, for Concat, Slice, Pad and Tile. */
#ifndef DPX_KERNELS_CPU_CPU_STRIDED_H
#define DPX_KERNELS_CPU_CPU_STRIDED_H

#include "graph/tensor/shape.h"
#include "kernels/backend.h"

enum { BOX_RANK = MAX_RANK };

typedef struct StridedBox StridedBox;
/* `count` lines along the box's innermost axis but one. */
typedef void StridedLines(const StridedBox *b, char *to, const char *from, int64_t count);

/* Lines of `n` elements of `size` bytes and the axes around them, innermost first. */
struct StridedBox {
    size_t size;
    StridedLines *copy;
    int rank;
    int64_t n, to_step, from_step;                       /* of a line, in elements; from_step 0 repeats one element */
    int64_t dim[BOX_RANK], to[BOX_RANK], from[BOX_RANK]; /* steps in bytes */
    int64_t lines;                                       /* 0: nothing to copy */
};

/* to[i . ts] = from[i . fs] for every i of `rank` dimensions, outermost first; elements of 1, 2, 4 or 8 bytes, strides
 * in elements (any sign, 0 in fs repeats).  Neighbouring dimensions that both sides walk with one stride are merged; at
 * most BOX_RANK + 1 that are not 1 may be left. */
StridedBox strided_box(size_t size, int rank, const int64_t *dim, const int64_t *ts, const int64_t *fs);
/* Copies the box, by a team of the context: which thread copies what does not change it. */
void strided_copy(const StridedBox *b, void *to, const void *from, const KernelCtx *ctx);

/* memcpy of short runs whose length the compiler does not know. */
static inline void copy_row(char *to, const char *from, size_t bytes)
{
    switch (bytes) {
    case 4: __builtin_memcpy(to, from, 4); break;
    case 8: __builtin_memcpy(to, from, 8); break;
    case 16: __builtin_memcpy(to, from, 16); break;
    case 32: __builtin_memcpy(to, from, 32); break;
    case 64: __builtin_memcpy(to, from, 64); break;
    default: __builtin_memcpy(to, from, bytes);
    }
}

#endif
