/* The phase of every node of a step. */
#ifndef DPX_PHASE_H
#define DPX_PHASE_H

#include "graph/ir/graph.h"

/* By node index, in the arena; NULL: out of memory.  Nodes stand in topological order.  What no pass gave a phase (what
 * the model has; conversions, collectives) has that of the latest it reads the result of, and of inputs and states
 * alone the earliest that reads it: PHASE_FORWARD where there is none. */
uint8_t *graph_phases(const Graph *g, Arena *a);
/* "forward", "criterion", "backward", "update" */
const char *phase_name(int phase);

#endif
