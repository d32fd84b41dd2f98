/* The axes of a reduction; shared with the kernels. */
#ifndef DPX_OPS_REDUCE_H
#define DPX_OPS_REDUCE_H

#include "graph/ir/op.h"

/* Bit i: axis i is reduced.  Of any Reduce operator whose axes, when given, are constant. */
Status reduce_axes(unsigned *out, const Graph *g, const Node *n) CHECKED;

#endif
