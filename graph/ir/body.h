/* Bodies: graphs that are attributes of nodes (A_GRAPH), as Fused's program and an optimizer's formula.
 *
 * A body sees nothing but its inputs, which stand for the node's by position; what it returns are its outputs, by
 * position too.  It has nodes and constants, no states, updates, places or devices.  Types of its values may be
 * unknown: then they are those of each use (body_instance), and nodes of unlike shapes can share it.  A body in a node
 * lives in the arena of the node's graph, is never changed, and is shared by all nodes of that graph whose bodies are
 * the same; another one is set in its place (node_set_attr). */
#ifndef DPX_BODY_H
#define DPX_BODY_H

#include "graph/ir/graph.h"

/* ---- building: in a graph of its own (graph_create, graph_free), which node_set_attr copies ---- */
ValueId body_input(Graph *body, const char *name); /* of unknown type */
/* One more node like x of any graph, over values of the body; its one output is called `name`, and so is the node. */
ValueId body_add_like(Graph *body, const Node *x, const ValueId *in, const char *name);
void body_return(Graph *body, ValueId v); /* one more output */
void body_drop_output(Graph *body, int i);

/* ---- using ---- */
/* A copy with the types and layouts that values `in` of g, `n` of them, give to its inputs, and those that follow; the
 * caller frees it, before the body goes.  E_MODEL for another number of inputs. */
Status body_instance(Graph **out, const Graph *body, const Graph *g, int n, const ValueId *in) CHECKED;
/* The body's nodes, which have one output each, as nodes of g over values `in` of it; what it returns in `out`. */
Status body_inline(ValueId *out, Graph *g, const Graph *body, const ValueId *in) CHECKED;
/* The same body in the arena of g: itself, one that is there already, or a copy; NULL when g->status says why. */
const Graph *body_share(Graph *g, const Graph *body);
/* "Mul, Add, Relu": the operators of a body, in order, as far as there is room; returns the length. */
enum { BODY_TEXT = 160 };
int body_operators(char text[BODY_TEXT], const Graph *body);

/* ---- what operators with bodies check ---- */
Status node_check_present(const Node *n) CHECKED;         /* E_MODEL for an input or output that is absent */
Status body_check_elementwise(const Graph *body) CHECKED; /* E_MODEL for a node that is not, or has several outputs */

/* ---- comparing ---- */
/* Do they compute the same?  Names do not count; types, where they are known, do. */
bool body_same(const Graph *a, const Graph *b);
uint64_t body_hash(const Graph *body);

#endif
