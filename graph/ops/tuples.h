/* Tuples of indices, which the last axis of an input holds: GatherND and ScatterND. */
#ifndef DPX_OPS_TUPLES_H
#define DPX_OPS_TUPLES_H

#include "graph/op.h"

/* OpDef.index_range of input 1, whose tuples select along axes of input 0 from `batch_dims` on; -1 where these differ
 * in length, as one number is for all of a tuple. */
int64_t tuples_range(const Graph *g, const Node *n, int i, int64_t batch_dims);

#endif
