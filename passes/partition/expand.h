/* From one graph and its placements to the graph of all replicas, in place. */
#ifndef DPX_EXPAND_H
#define DPX_EXPAND_H

#include "passes/partition/place.h"

Status expand_graph(Graph *g, const Partition *p, const Placements *t, Arena *a) CHECKED;

#endif
