/* A picture of the graph for Graphviz: chains of nodes by device, replica and phase, values as edges. */
#ifndef DPX_WRITE_DOT_H
#define DPX_WRITE_DOT_H

#include <stdio.h>

#include "graph/ir/graph.h"

/* Draws the graph and, beside it, the model that it was made from; `model` may be NULL.  E_IO when the stream fails. */
Status graph_dot(FILE *f, const Graph *g, const Graph *model) CHECKED;

/* ---- parts for other pictures with Graphviz ---- */
/* Draws only nodes and edges; `prefix` begins their names.  `bare`: edges have no labels, each of which takes a rank.
 */
Status graph_dot_part(FILE *f, const Graph *g, const char *prefix, bool bare) CHECKED;
/* Prints at most `max` bytes of s, then "...", for use inside double quotes. */
void dot_text(FILE *f, const char *s, size_t max);

#endif
