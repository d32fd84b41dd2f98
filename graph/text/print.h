/* The text form of a graph, for reading, for golden tests and for dumps; graph/text/parse.h reads it back.  Grammar:
 * docs/internals/ir.md. */
#ifndef DPX_PRINT_H
#define DPX_PRINT_H

#include <stdio.h>

#include "graph/ir/graph.h"

typedef struct {
    int64_t max_elements; /* elements of a tensor before "...", which cannot be read back; 0: no limit */
    bool no_node_names;
    bool no_init; /* leaves out values of constants and states, which cannot be read back */
} PrintOptions;

/* Prints the graph.  `opt` may be NULL.  E_IO when the stream fails. */
Status graph_print(FILE *f, const Graph *g, const PrintOptions *opt) CHECKED;
/* Prints the graph to a string, which the caller frees. */
Status graph_text(char **out, const Graph *g, const PrintOptions *opt) CHECKED;

/* Defaults that the text leaves out.  A value named NAME@r0 or NAME@d0 is a copy of NAME: returns `out`, of at least
 * strlen(name) + 1 bytes, or NULL for other names. */
const char *text_default_logical(char *out, const char *name);
/* A node bears the name of its first output, or of the value that this output is a copy of. */
const char *text_default_node_name(const Graph *g, const Node *n);

#endif
