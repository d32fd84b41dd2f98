/* The graph as JSON, for other programs.  docs/internals/ir.md lists the fields.  Data of constants is left out. */
#ifndef DPX_WRITE_JSON_H
#define DPX_WRITE_JSON_H

#include <stdio.h>

#include "graph/ir/graph.h"

/* E_IO when the stream fails. */
Status graph_json(FILE *f, const Graph *g) CHECKED;

#endif
