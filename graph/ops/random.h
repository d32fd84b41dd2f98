/* Random operators in training: keyed by (seed, step, node, global element), so that draws do not depend on the
 * partition. */
#ifndef DPX_OPS_RANDOM_H
#define DPX_OPS_RANDOM_H

#include "graph/ir/op.h"

/* Replaces a node of ONNX's that draws (OPF_RANDOM) by operators of ours that draw anew for each value of `draw`, an
 * int64 scalar.  Dropout is put into training mode, whatever it was.  `key` tells the nodes of a model apart; a seed
 * attribute of the node stands in for `seed`.  Nothing happens to operators that are ours already.
 *
 * Ours (RandomDropout, Random) carry split_axis, split_offset and split_dim: the axis along which this replica's part
 * was cut (-1: none), where the part begins and how long the whole is. */
Status random_make_keyed(Graph *g, Node *n, ValueId draw, uint64_t seed, int64_t key) CHECKED;

/* A Dropout whose ratio is a constant zero: the identity, in training too. */
bool dropout_keeps_all(const Graph *g, const Node *n);

#endif
