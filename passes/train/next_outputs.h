/* Updates of a step as outputs, for readers that know no updates: what state NAME becomes is the output NAME.next. */
#ifndef DPX_NEXT_OUTPUTS_H
#define DPX_NEXT_OUTPUTS_H

#include "graph/ir/graph.h"

/* One of each update, which stays, behind the outputs that there are. */
Status next_outputs_add(Graph *g) CHECKED;
/* The updates that such outputs stand for, of a graph that has none. */
Status next_outputs_follow(Graph *g) CHECKED;
/* Of all outputs the loss alone stays, if there is one. */
void next_outputs_drop_others(Graph *g);

#endif
