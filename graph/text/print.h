/* The text form of a graph, for reading, for golden tests and for dumps; graph/text/parse.h reads it back.  Grammar:
 * docs/ir.md. */
#ifndef DPX_PRINT_H
#define DPX_PRINT_H

#include <stdio.h>

#include "graph/ir/graph.h"

typedef struct {
    int64_t max_elements; /* a tensor of more is cut after that many ("..."), which cannot be read back; 0: never cut */
    bool no_node_names;
    bool no_init; /* values of constants and states are left out, which cannot be read back */
} PrintOptions;

/* `opt` may be NULL.  E_IO when the stream fails. */
Status graph_print(FILE *f, const Graph *g, const PrintOptions *opt) CHECKED;
/* The same as a string; the caller frees it. */
Status graph_text(char **out, const Graph *g, const PrintOptions *opt) CHECKED;

/* What the text leaves out because the reader fills it in.  A value called NAME@r0 or NAME@d0 is a copy of NAME (`out`
 * of at least strlen(name) + 1, returned; NULL: of nothing), and a node is called as the value that its first output is
 * or copies. */
const char *text_default_logical(char *out, const char *name);
const char *text_default_node_name(const Graph *g, const Node *n);

#endif
