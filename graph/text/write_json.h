/* The graph as JSON, for other programs.  docs/ir.md lists the fields.  Data of constants is left out. */
#ifndef DPX_WRITE_JSON_H
#define DPX_WRITE_JSON_H

#include <stdio.h>

#include "graph/ir/graph.h"

/* E_IO when the stream fails. */
Status graph_json(FILE *f, const Graph *g) CHECKED;
/* Writes a quoted JSON string; bytes that are no UTF-8 become U+FFFD. */
void json_write_string(FILE *f, const char *s);
/* Writes the shortest number that reads back to the same bits; infinities and NaN become strings: "inf", "-inf", "nan".
 */
void json_write_float(FILE *f, double v);

#endif
