/* Copies the nodes of one graph into another. */
#ifndef DPX_INLINE_GRAPH_H
#define DPX_INLINE_GRAPH_H

#include "graph/ir/graph.h"

/* Appends the nodes and constants of `from`, a model, to g.  A name that g has already gets the prefix.  `is`, by value
 * id of `from`, holds the values of g that replace its inputs, and receives the copies of all others.  The caller adds
 * outputs.  Nodes belong to the phase.  The data of constants are shared and live until both graphs are freed. */
Status graph_join(Graph *g, const Graph *from, ValueId *is, const char *prefix, Phase phase) CHECKED;

#endif
