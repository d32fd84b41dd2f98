/* The graph as JSON, for programs that look at it; docs/ir.md says what the fields are.  Constants' data is left
 * out. */
#ifndef DPX_WRITE_JSON_H
#define DPX_WRITE_JSON_H

#include <stdio.h>

#include "graph/ir/graph.h"

/* E_IO when the stream fails. */
Status graph_json(FILE *f, const Graph *g) CHECKED;
/* A quoted JSON string; what is no UTF-8 becomes U+FFFD. */
void json_write_string(FILE *f, const char *s);
/* Shortest form that reads back to the same bits; JSON has no infinities and NaN, they are strings: "inf", "-inf",
 * "nan". */
void json_write_float(FILE *f, double v);

#endif
