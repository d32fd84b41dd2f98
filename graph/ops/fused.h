/* The body of a Fused node. */
#ifndef DPX_OPS_FUSED_H
#define DPX_OPS_FUSED_H

#include "graph/ir/body.h"
#include "graph/ir/node_draft.h"

/* The body of node n: its input i has the type, shape and layout of input i of n, its output i is output i of n; if n
 * has a sum, the last is the summand.  The caller frees it before g.  E_MODEL, E_SHAPE for an invalid body. */
Status fused_body(Graph **out, const Graph *g, const Node *n) CHECKED;
/* Writes n elementwise nodes to a draft that was begun as a Fused: `body`, which is empty, gets these nodes in their
 * order; values from outside become its inputs, each once; results of nodes with `returned` become its outputs. */
Status fused_write(Draft *d, Graph *body, int n, Node *const *node, const bool *returned) CHECKED;
/* Is the last output of n a sum? */
bool fused_sums(const Node *n);
/* Appends the sum of n, if there is one, to its body: a ReduceSum then makes the last output. */
Status fused_add_sum(Graph *body, const Node *n) CHECKED;
/* "Mul, Add, Relu, ReduceSum": writes the operators of a node's body in order, as far as there is room. */
const char *fused_operators(char text[BODY_TEXT], const Node *n);

#endif
