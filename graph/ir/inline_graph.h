/* Copies the nodes of one graph into another. */
#ifndef DPX_INLINE_GRAPH_H
#define DPX_INLINE_GRAPH_H

#include "graph/ir/graph.h"

/* Appends the nodes and constants of `from`, a model, to g, whose names stay as they are: a name that is taken gets the
 * prefix in front.  `is`, by value id of `from`, holds the values of g that stand for its inputs, and receives those
 * that became of all others; outputs are left to the caller.  Nodes belong to the phase.  The data of constants live
 * as long as one of both graphs. */
Status graph_join(Graph *g, const Graph *from, ValueId *is, const char *prefix, Phase phase) CHECKED;

#endif
