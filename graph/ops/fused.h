/* The program of a Fused node. */
#ifndef DPX_OPS_FUSED_H
#define DPX_OPS_FUSED_H

#include "graph/ir/body.h"
#include "graph/ir/node_draft.h"

/* The program of node n with its types: input i is of the type, shape and layout of input i of n, output i is output i;
 * the last, where n has a sum, is what is summed.  The caller frees it, before g goes.  E_MODEL, E_SHAPE for a program
 * that is none. */
Status fused_body(Graph **out, const Graph *g, const Node *n) CHECKED;
/* The draft, begun as a Fused, computes what n elementwise nodes do, in their order: `body`, empty, becomes the
 * program, what they read from elsewhere the inputs, each once, and those whose `returned` is true the outputs. */
Status fused_write(Draft *d, Graph *body, int n, Node *const *node, const bool *returned) CHECKED;
/* Is the last output of n a sum? */
bool fused_sums(const Node *n);
/* Adds the sum, if there is one, to the body of n: a ReduceSum then makes the last output. */
Status fused_add_sum(Graph *body, const Node *n) CHECKED;
/* "Mul, Add, Relu, ReduceSum": the operators of a node's program, in order, as far as there is room. */
const char *fused_operators(char text[BODY_TEXT], const Node *n);

#endif
