/* Removes values that no node produces or reads: a graph that grew by copies of itself holds many. */
#ifndef DPX_DROP_VALUES_H
#define DPX_DROP_VALUES_H

#include "graph/ir/graph.h"

/* Values that no node makes, and that no node, output or update reads, are the graph's no more, and their names are
 * free.  The others keep their order, not their ids. */
Status graph_drop_values(Graph *g) CHECKED;

#endif
