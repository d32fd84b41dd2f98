/* Evaluation of nodes at compile time, shared by infer_shapes and fold_constants. */
#ifndef DPX_FOLD_H
#define DPX_FOLD_H

#include "graph/ir/op.h"
#include "passes/pass.h"

/* All that the node reads is known now, and evaluating it is allowed. */
bool fold_possible(const Graph *g, const Node *n);
/* Evaluates the node, replaces its outputs by constants of the same names and removes it.  Nothing happens when there
 * is no kernel for it or a result would exceed `max_bytes`. */
Status fold_node(Graph *g, PassCtx *ctx, Node *n, int64_t max_bytes) CHECKED;

#endif
