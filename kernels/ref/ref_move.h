/* Shared by the reference kernels that move elements or read at indices. */
#ifndef DPX_KERNELS_REF_REF_MOVE_H
#define DPX_KERNELS_REF_REF_MOVE_H

#include "kernels/ref/ref.h"

/* dst[i . ds] = src[i . ss] for every i of `dims`; elements of `size` bytes, strides in elements (any sign, 0
 * repeats). */
void ref_move(size_t size, const Shape *dims, void *dst, const int64_t *ds, const void *src, const int64_t *ss);
/* `n` copies of one element. */
void ref_fill(size_t size, int64_t n, void *dst, const void *element);

/* DepthToSpace and SpaceToDepth: elements [N, b, b, C, H, W], and their strides in the deep tensor [N, C * b * b, H, W]
 * and in the wide one [N, C, H * b, W * b]. */
typedef struct {
    Shape dims;
    int64_t deep[6], wide[6];
} BlockStrides;
BlockStrides ref_block_strides(const Graph *g, const Node *n);

/* Index `i` of an int32 or int64 tensor as written. */
static inline int64_t ref_index(const Tensor *t, int64_t i)
{
    return t->dtype == DT_INT64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
}
/* The same in [0, d); E_INVALID names the node when it is not in [-d, d). */
Status ref_index_in(int64_t *out, const RefNode *p, const Tensor *t, int64_t i, int64_t d) CHECKED;

#endif
