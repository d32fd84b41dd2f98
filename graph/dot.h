/* A graph as Graphviz input: nodes clustered by device, edges labelled with types and shapes. */
#ifndef DPX_DOT_H
#define DPX_DOT_H

#include <stdio.h>

#include "graph/graph.h"

/* E_IO when the stream fails. */
Status graph_dot(FILE *f, const Graph *g) CHECKED;

#endif
