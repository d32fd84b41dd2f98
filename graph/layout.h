/* Where the elements of values stand in memory, as Layout says. */
#ifndef DPX_GRAPH_LAYOUT_H
#define DPX_GRAPH_LAYOUT_H

#include "graph/graph.h"

/* May a value of this shape be stored so, and is the order of its elements then another one than by rows? */
bool layout_suits(Layout l, const Shape *s);
/* The axis that stands at `position` in memory, 0 outermost; and back. */
int layout_axis(Layout l, int rank, int position);
int layout_position(Layout l, int rank, int axis);
/* The shape that stored by rows has its elements in the same order. */
Shape layout_stored(Layout l, const Shape *s);
/* In elements, by axis. */
void layout_strides(Layout l, const Shape *s, int64_t *stride);
/* Of all that the node reads and writes; what is not marked channels last then has the same order in both layouts. */
Layout node_layout(const Graph *g, const Node *n);

#endif
