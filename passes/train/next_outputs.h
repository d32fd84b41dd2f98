/* Updates of a step as outputs, for readers that know no updates: the next value of state NAME is the output NAME.next.
 */
#ifndef DPX_NEXT_OUTPUTS_H
#define DPX_NEXT_OUTPUTS_H

#include "graph/ir/graph.h"

/* Appends an output for each update; the updates stay. */
Status next_outputs_add(Graph *g) CHECKED;
/* Adds an update for each such output, to a graph without updates. */
Status next_outputs_to_updates(Graph *g) CHECKED;
/* Removes all outputs but the loss. */
void next_outputs_drop_others(Graph *g);

#endif
