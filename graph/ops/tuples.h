/* Tuples of indices along the last axis of an input: GatherND and ScatterND. */
#ifndef DPX_OPS_TUPLES_H
#define DPX_OPS_TUPLES_H

#include "graph/ir/op.h"

/* OpDef.tuple_range for input 1, whose tuples select along the axes of input 0 from `batch_dims` on. */
int64_t tuples_range_at(const Graph *g, const Node *n, int i, int k, int64_t batch_dims);
/* OpDef.index_range for it: the shortest of these axes. */
int64_t tuples_range(const Graph *g, const Node *n, int i, int64_t batch_dims);

#endif
