/* The order in which a graph's nodes run. */
#ifndef DPX_PLAN_SCHEDULE_H
#define DPX_PLAN_SCHEDULE_H

#include "passes/pass.h"

/* Puts g->node into the order of execution: a topological order whose restriction to a device is the order of that
 * device (a collective belongs to every device whose values it reads or writes).  See schedule.c for the rules. */
Status schedule_graph(Graph *g, Arena *scratch) CHECKED;

extern const Pass pass_schedule;

#endif
