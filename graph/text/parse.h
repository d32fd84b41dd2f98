/* Reads the text form that graph/text/print.h writes, or that a person wrote.  Grammar: docs/internals/ir.md. */
#ifndef DPX_PARSE_H
#define DPX_PARSE_H

#include "graph/ir/graph.h"

/* E_MODEL names the line, what was expected and what was found.  Attributes get their defaults; outputs written without
 * a type get the one that inference finds. */
Status graph_parse(Graph **out, const char *text, size_t len) CHECKED;

#endif
