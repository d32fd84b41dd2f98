/* Bodies: graphs that are attributes of nodes (A_GRAPH), such as the program of Fused or the formula of Update.
 *
 * A body reads only its inputs, which are the node's inputs by position, and returns its outputs by position.  It has
 * nodes and constants, but no states, updates or devices.  Types of its values may be unknown: body_instance then takes
 * them from the use, so nodes of different shapes can share a body.  A body in a node lives in the arena of the node's
 * graph and never changes; all nodes of the graph with equal bodies share one.  node_set_attr replaces it. */
#ifndef DPX_BODY_H
#define DPX_BODY_H

#include "graph/ir/graph.h"

/* ---- building: in a graph of its own (graph_create, graph_free), which node_set_attr copies ---- */
ValueId body_input(Graph *body, const char *name); /* appends an input of unknown type */
/* Appends a node with the operator and attributes of x, a node of any graph, over values `in` of the body.  The node
 * and its only output get the name. */
ValueId body_add_like(Graph *body, const Node *x, const ValueId *in, const char *name);
void body_return(Graph *body, ValueId v); /* appends an output */
void body_drop_output(Graph *body, int i);

/* ---- using ---- */
/* Copies the body with its inputs typed and laid out like values in[0..n) of g, and infers the rest.  The caller frees
 * the copy before the body.  E_MODEL for another number of inputs. */
Status body_instance(Graph **out, const Graph *body, const Graph *g, int n, const ValueId *in) CHECKED;
/* Appends the body's nodes, which have one output each, to g over its values `in`; `out` receives the results. */
Status body_inline(ValueId *out, Graph *g, const Graph *body, const ValueId *in) CHECKED;
/* An equal body in the arena of g: the body itself, one that g has already, or a copy; NULL on failure (g->status). */
const Graph *body_share(Graph *g, const Graph *body);
/* "Mul, Add, Relu": writes the operators of a body in order, ending in "..." when there is no room; returns the length.
 */
enum { BODY_TEXT = 160 };
int body_operators(char text[BODY_TEXT], const Graph *body);

/* ---- checks for operators with bodies ---- */
Status node_check_present(const Node *n) CHECKED; /* E_MODEL for an absent input or output */
/* E_MODEL for a node that is not elementwise or has several outputs. */
Status body_check_elementwise(const Graph *body) CHECKED;

/* ---- comparing ---- */
/* Do both compute the same?  Compares types where they are known, and no names. */
bool body_same(const Graph *a, const Graph *b);
uint64_t body_hash(const Graph *body);

#endif
