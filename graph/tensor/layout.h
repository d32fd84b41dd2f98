/* Layouts: where the elements of a value lie in memory.  A new layout is a number here, a line in layout.c, and kernels
 * that support it.
 *
 * A layout orders the axes, outermost first, and may divide axes into blocks.  A blocked axis appears twice: the number
 * of the block at the axis's place in the order, and the index within the block innermost.  The last block of an axis
 * may be padded with zeros; values of graphs have only whole blocks (layout_holds). */
#ifndef DPX_GRAPH_LAYOUT_H
#define DPX_GRAPH_LAYOUT_H

#include "graph/tensor/dtype.h"
#include "graph/tensor/shape.h"

/* A value's shape and meaning do not depend on its layout. */
typedef enum {
    LAYOUT_ROWS,          /* row-major */
    LAYOUT_CHANNELS_LAST, /* [N, C, spatial...] is stored as row-major [N, spatial..., C] */
    LAYOUT_BLOCKED_8,     /* [N, C, spatial...] is stored as row-major [N, C / 8, spatial..., 8] */
    LAYOUT_BLOCKED_16,
    LAYOUT_FILTER_8, /* [O, I, spatial...] is stored as row-major [O / 8, I / 8, spatial..., 8 of I, 8 of O] */
    LAYOUT_FILTER_16,
    N_LAYOUTS
} Layout;

const char *layout_name(Layout l);               /* "channels_last", as in the text form */
bool layout_find(Layout *out, const char *name); /* false: there is no layout of this name */
/* Can a value of this shape, which may be unknown, have the layout? */
bool layout_holds(Layout l, const Shape *s);
/* Can it, for a known shape, and does the order of its elements then differ from row-major order? */
bool layout_suits(Layout l, const Shape *s);

/* The offset of an element in memory, in elements. */
int64_t layout_place(Layout l, const Shape *s, const int64_t *index);
/* The size of a tensor with padding in bytes; shape_check() has passed its shape. */
size_t layout_bytes(DType dtype, Layout l, const Shape *s);
/* Copies elements of `size` bytes from row-major order to a layout that holds the shape, or back. */
void layout_convert(void *to, const void *from, const Shape *s, size_t size, Layout l, bool to_layout);

/* The number of elements along axis 1 that are adjacent in memory, if each sample is stored as [blocks, positions, that
 * number]: 1 in row-major order, all of them in channels_last.  0: a sample is stored in another way. */
int64_t layout_channels(Layout l, const Shape *s);

/* ---- layouts without blocks ---- */

/* The axis at `position` in memory, 0 being outermost, and the position of an axis. */
int layout_axis(Layout l, int rank, int position);
int layout_position(Layout l, int rank, int axis);
/* The shape whose row-major order is the order of the elements in memory. */
Shape layout_stored(Layout l, const Shape *s);
/* Strides in elements, by axis. */
void layout_strides(Layout l, const Shape *s, int64_t *stride);

#endif
