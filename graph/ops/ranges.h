/* Slices and pads with values for every axis, for inference, placement and kernels. */
#ifndef DPX_OPS_RANGES_H
#define DPX_OPS_RANGES_H

#include "graph/ir/op.h"

/* y[i] = x[start + i * step] for i < count, along each axis. */
typedef struct {
    int64_t start[MAX_RANK], step[MAX_RANK], count[MAX_RANK];
} SliceRange;

/* Reads Slice's inputs for a tensor of shape x; `axes` and `steps` may be NULL.  `what` names the node in errors. */
Status slice_range(SliceRange *out, const Shape *x, const Tensor *starts, const Tensor *ends, const Tensor *axes,
                   const Tensor *steps, const char *what) CHECKED;
/* Does the slice keep the whole axis in order?  Then it does so for each part of a split. */
static inline bool slice_keeps(const SliceRange *r, const Shape *x, int axis)
{
    return r->start[axis] == 0 && r->step[axis] == 1 && r->count[axis] == x->dim[axis];
}

/* Writes the strides of the slice within x, and returns the offset of its first element; both in elements. */
int64_t slice_strides(const SliceRange *r, const Shape *x, int64_t *stride);
/* Are all present inputs from `first` on constants? */
bool constant_from(const Graph *g, const Node *n, int first);

/* Number of elements added (removed when negative) at the begin and end of each axis. */
typedef struct {
    int64_t before[MAX_RANK], after[MAX_RANK];
} PadRange;

typedef enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } PadMode;

/* Reads Pad's inputs; `axes` may be NULL. */
Status pad_range(PadRange *out, int rank, const Tensor *pads, const Tensor *axes, const char *what) CHECKED;
Status pad_mode(PadMode *out, const Graph *g, const Node *n) CHECKED;
/* Can an axis of d elements be padded to y?  Modes that repeat elements need at least one that remains. */
bool pad_fits(PadMode mode, const PadRange *r, int axis, int64_t d, int64_t y);
/* Index of the element of an axis of size d that fills position i (< 0 or >= d beyond its ends); -1: the constant. */
int64_t pad_source(PadMode mode, int64_t i, int64_t d);

#endif
