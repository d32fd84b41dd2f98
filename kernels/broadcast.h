/* Walking tensors that broadcast to one shape: an odometer over the outer dimensions, a strided row inside.
 *
 * Neighbouring dimensions that every operand walks with one stride are merged, so equal shapes and scalars are one long
 * row. */
#ifndef DPX_KERNELS_BROADCAST_H
#define DPX_KERNELS_BROADCAST_H

#include "graph/tensor/tensor.h"

enum { MAX_OPERANDS = 3 };

typedef struct {
    int n, rank;                      /* operands; outer dimensions left after merging */
    int64_t row;                      /* elements of a row; 0: nothing to do */
    int64_t row_stride[MAX_OPERANDS]; /* 0 or more, in elements */
    int64_t dim[MAX_RANK], stride[MAX_OPERANDS][MAX_RANK];
    int64_t at[MAX_RANK], offset[MAX_OPERANDS]; /* where the walk stands; offset is that of the row's first element */
} BroadcastWalk;

/* Merges neighbouring dimensions of `out` that each of `n` operands, which broadcast to it, walks with one stride.
 * Gives sizes and each operand's strides in elements, innermost first; dimensions of size 1 are left out.  Returns how
 * many are left, -1 when there are no elements. */
static inline int merge_dims(const Shape *out, int n, const Shape *const *in, int64_t dim[MAX_RANK],
                             int64_t (*stride)[MAX_RANK])
{
    int rank = 0;

    for (int i = out->rank - 1; i >= 0; i--) {
        bool merge = rank > 0;

        if (out->dim[i] == 0)
            return -1;
        if (out->dim[i] == 1)
            continue;
        for (int k = 0; k < n; k++) {
            int axis = i - (out->rank - in[k]->rank);

            stride[k][rank] = axis < 0 || in[k]->dim[axis] == 1 ? 0 : shape_count(in[k], axis + 1, in[k]->rank);
            if (rank && stride[k][rank] != stride[k][rank - 1] * dim[rank - 1])
                merge = false;
        }
        dim[rank] = out->dim[i];
        if (merge)
            dim[rank - 1] *= dim[rank];
        else
            rank++;
    }
    return rank;
}

/* Starts a walk of `n` tensors that broadcast to `out`. */
static inline BroadcastWalk walk_start(const Shape *out, int n, const Tensor *in)
{
    BroadcastWalk w = { .n = n, .row = 1 };
    const Shape *shape[MAX_OPERANDS];
    int64_t dim[MAX_RANK], stride[MAX_OPERANDS][MAX_RANK];
    int rank;

    for (int k = 0; k < n; k++)
        shape[k] = &in[k].shape;
    if ((rank = merge_dims(out, n, shape, dim, stride)) < 0)
        return (BroadcastWalk){ .n = n };
    if (rank) {
        w.row = dim[0];
        w.rank = rank - 1;
        for (int k = 0; k < n; k++)
            w.row_stride[k] = stride[k][0];
    }
    for (int i = 0; i < w.rank; i++) {
        w.dim[i] = dim[i + 1];
        for (int k = 0; k < n; k++)
            w.stride[k][i] = stride[k][i + 1];
    }
    return w;
}

/* On to the next row; false after the last. */
static inline bool walk_next(BroadcastWalk *w)
{
    for (int i = 0; i < w->rank; i++) {
        for (int k = 0; k < w->n; k++)
            w->offset[k] += w->stride[k][i];
        if (++w->at[i] < w->dim[i])
            return true;
        for (int k = 0; k < w->n; k++)
            w->offset[k] -= w->stride[k][i] * w->dim[i];
        w->at[i] = 0;
    }
    return false;
}

/* for (WALK(w, &out->shape, 2, in)) { one row } */
#define WALK(w, out, n, in)                                                        \
    BroadcastWalk w = walk_start((out), (n), (in)), *more_##w = w.row ? &w : NULL; \
    more_##w;                                                                      \
    more_##w = walk_next(&w) ? &w : NULL

#endif
