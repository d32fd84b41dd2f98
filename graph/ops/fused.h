/* The body of a Fused node. */
#ifndef DPX_OPS_FUSED_H
#define DPX_OPS_FUSED_H

#include "graph/graph.h"

/* The program of node n as a graph of elementwise nodes: its input i is of the type, shape and layout of input i of n,
 * its output i is output i; the last, where n has a sum, is what is summed.  The caller frees it.  E_MODEL, E_SHAPE for
 * a program that is none. */
Status fused_body(Graph **out, const Graph *g, const Node *n) CHECKED;
/* Is the last output of n a sum? */
bool fused_sums(const Node *n);
/* Adds the sum, if there is one, to the body of n: a ReduceSum then makes the last output. */
Status fused_add_sum(Graph *body, const Node *n) CHECKED;
/* The program of such a graph, in its arena; its values must be named x0, x1 ... (inputs) and y0, y1 ... (outputs). */
Status fused_program(const char **out, Graph *body) CHECKED;
/* "Mul, Add, Relu": the operators of a program, in order, as far as there is room. */
enum { FUSED_TEXT = 160 };
const char *fused_operators(char text[FUSED_TEXT], const Node *n);

#endif
