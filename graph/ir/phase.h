/* The phase of every node of a step. */
#ifndef DPX_PHASE_H
#define DPX_PHASE_H

#include "graph/ir/graph.h"

/* The phase of each node by index, in the arena; NULL: out of memory.  Nodes must be in topological order.  A node that
 * no pass gave a phase (of the model; conversions, collectives) has the latest phase of the nodes that it reads.  One
 * that reads only inputs and states has the earliest phase of its readers, or PHASE_FORWARD. */
uint8_t *graph_phases(const Graph *g, Arena *a);
/* "forward", "criterion", "backward", "update" */
const char *phase_name(int phase);

#endif
