/* A picture of the graph for Graphviz: nodes by device and replica, values as edges. */
#ifndef DPX_DOT_H
#define DPX_DOT_H

#include <stdio.h>

#include "graph/graph.h"

/* E_IO when the stream fails. */
Status graph_dot(FILE *f, const Graph *g) CHECKED;

#endif
