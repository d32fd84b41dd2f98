/* Removal of values that no node produces or reads. */
#ifndef DPX_DROP_VALUES_H
#define DPX_DROP_VALUES_H

#include "graph/ir/graph.h"

/* Removes temporary values that no node produces and no node, output or update reads, and frees their names.  The other
 * values keep their order, but get new ids.  A graph that grew by copies of itself holds many such values. */
Status graph_drop_values(Graph *g) CHECKED;

#endif
