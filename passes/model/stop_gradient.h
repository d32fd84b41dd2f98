/* The values that --stop-gradient names. */
#ifndef DPX_STOP_GRADIENT_H
#define DPX_STOP_GRADIENT_H

#include "graph/ir/graph.h"

/* Does the pattern match a value that a node reads, or an output?  `a` holds temporary names. */
bool stop_gradient_names(const Graph *g, const char *pattern, Arena *a);

#endif
