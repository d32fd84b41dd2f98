/* Evaluation of nodes at compile time, shared by infer_shapes and fold_constants. */
#ifndef DPX_FOLD_H
#define DPX_FOLD_H

#include "graph/ir/op.h"
#include "passes/pass.h"

/* Are the node's inputs known (its shapes, if it reads only these), and may it be evaluated at compile time? */
bool fold_possible(const Graph *g, const Node *n);
/* Evaluates the node, turns its outputs into constants and removes it.  The node stays if it has no kernel, or if an
 * output would exceed `max_bytes`. */
Status fold_node(Graph *g, PassCtx *ctx, Node *n, int64_t max_bytes) CHECKED;

#endif
