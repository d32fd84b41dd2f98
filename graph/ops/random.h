/* Random operators in training: draws are keyed by (seed, step, node, global element), so they do not depend on the
 * partition. */
#ifndef DPX_OPS_RANDOM_H
#define DPX_OPS_RANDOM_H

#include "graph/ir/op.h"

/* Replaces an ONNX node that draws random numbers (OPF_RANDOM) by dpexec's operators, which draw anew for each value of
 * `draw`, an int64 scalar.  Dropout is put into training mode.  `key` differs between the nodes of a model; the node's
 * own attribute "seed" overrides `seed`.  No effect on dpexec's operators.
 *
 * They (RandomDropout, Random) have split_axis, split_offset and split_dim: the axis along which this replica's part
 * was split (-1: none), the offset of the part and the size of the whole. */
Status random_make_keyed(Graph *g, Node *n, ValueId draw, uint64_t seed, int64_t key) CHECKED;

/* Is it a Dropout of a constant ratio of zero: the identity, also in training? */
bool dropout_keeps_all(const Graph *g, const Node *n);

#endif
