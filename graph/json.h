/* A graph as JSON, for scripts: {"name", "values": [...], "nodes": [...], "outputs": [...], "updates": [...]}. */
#ifndef DPX_JSON_H
#define DPX_JSON_H

#include <stdio.h>

#include "graph/graph.h"

/* Values are named; constants' data is left out.  E_IO when the stream fails. */
Status graph_json(FILE *f, const Graph *g) CHECKED;

#endif
