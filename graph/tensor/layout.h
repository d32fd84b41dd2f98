/* Where the elements of values stand in memory: the only place that knows, so that a layout is added here (its number,
 * and its line in layout.c), and wherever there are kernels for it.
 *
 * A layout orders the axes, outermost first, and may cut axes into blocks: a cut axis stands where the order says by
 * the number of the block, and once more innermost by the place within it.  The last block of an axis may be filled up
 * with zeros; values of graphs have whole blocks only (layout_holds). */
#ifndef DPX_GRAPH_LAYOUT_H
#define DPX_GRAPH_LAYOUT_H

#include "graph/tensor/dtype.h"
#include "graph/tensor/shape.h"

/* A value's shape and meaning do not depend on it. */
typedef enum {
    LAYOUT_ROWS,          /* row-major */
    LAYOUT_CHANNELS_LAST, /* of [N, C, spatial...]: as [N, spatial..., C] would be row-major */
    LAYOUT_BLOCKED_8,     /* of [N, C, spatial...]: as [N, C / 8, spatial..., 8] would be */
    LAYOUT_BLOCKED_16,
    LAYOUT_FILTER_8, /* of [O, I, spatial...]: as [O / 8, I / 8, spatial..., 8 of I, 8 of O] would be */
    LAYOUT_FILTER_16,
    N_LAYOUTS
} Layout;

const char *layout_name(Layout l);               /* "channels_last": of the text forms */
bool layout_find(Layout *out, const char *name); /* false: there is none of this name */
/* May a value of this shape, which may be unknown, be stored so? */
bool layout_holds(Layout l, const Shape *s);
/* Likewise, of a known shape, and is the order of its elements then another one than by rows? */
bool layout_suits(Layout l, const Shape *s);

/* The place of an element in memory, counted in elements. */
int64_t layout_place(Layout l, const Shape *s, const int64_t *index);
/* What a tensor takes, filled up blocks included; its shape is known, and shape_check() has passed it. */
int64_t layout_elements(Layout l, const Shape *s);
size_t layout_bytes(DType dtype, Layout l, const Shape *s);
/* Copies elements of `size` bytes from row-major order to a layout that holds the shape, or back. */
void layout_convert(void *to, const void *from, const Shape *s, size_t size, Layout l, bool to_layout);

/* How many neighbours along axis 1 stand side by side where each sample lies in [blocks, positions, neighbours]: 1 by
 * rows, all channels last; 0 when it lies otherwise. */
int64_t layout_channels(Layout l, const Shape *s);

/* ---- layouts without blocks ---- */

/* The axis that stands at `position` in memory, 0 outermost; and back. */
int layout_axis(Layout l, int rank, int position);
int layout_position(Layout l, int rank, int axis);
/* The shape that stored by rows has its elements in the same order. */
Shape layout_stored(Layout l, const Shape *s);
/* In elements, by axis. */
void layout_strides(Layout l, const Shape *s, int64_t *stride);

#endif
