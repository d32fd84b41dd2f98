/* Which values --stop-gradient names. */
#ifndef DPX_STOP_GRADIENT_H
#define DPX_STOP_GRADIENT_H

#include "graph/ir/graph.h"

/* Does the pattern name a value that a node reads, or an output of a node?  Memory for names is taken of `a`. */
bool stop_gradient_names(const Graph *g, const char *pattern, Arena *a);

#endif
