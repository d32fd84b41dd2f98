/* The axes of a reduction, for inference and kernels. */
#ifndef DPX_OPS_REDUCE_H
#define DPX_OPS_REDUCE_H

#include "graph/ir/op.h"

/* Bit i of *out: axis i is reduced.  The node is a Reduce operator; its axes, if given, must be constant. */
Status reduce_axes(unsigned *out, const Graph *g, const Node *n) CHECKED;

#endif
