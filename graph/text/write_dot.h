/* A picture of the graph for Graphviz: chains of nodes by device, replica and phase, values as edges. */
#ifndef DPX_WRITE_DOT_H
#define DPX_WRITE_DOT_H

#include <stdio.h>

#include "graph/ir/graph.h"

/* `model`: what the graph was made of, drawn beside it; may be NULL.  E_IO when the stream fails. */
Status graph_dot(FILE *f, const Graph *g, const Graph *model) CHECKED;

/* ---- for another picture with Graphviz ---- */
/* Nodes and edges alone; `prefix` begins their names.  `bare`: edges have no labels, each of which costs a rank. */
Status graph_dot_part(FILE *f, const Graph *g, const char *prefix, bool bare) CHECKED;
/* Inside double quotes, at most `max` bytes, then "..." */
void dot_text(FILE *f, const char *s, size_t max);

#endif
