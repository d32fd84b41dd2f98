/* A graph and its memory plan as text that does not depend on the machine: numbers are rounded, for the functions of
 * the C library differ in their last bits. */
#ifndef DPX_TESTS_PLANS_GRAPH_TEXT_H
#define DPX_TESTS_PLANS_GRAPH_TEXT_H

#include <stdio.h>

#include "graph/ir/graph.h"

/* Prints the graph, the numbers of its constants and states, and the fields that the text form leaves out; `model`:
 * those of a model, which no step has. */
Status graph_text_print(FILE *to, const Graph *g, bool model) CHECKED;
/* Prints where the values of a scheduled graph lie, by a plan without the scratch of kernels. */
Status memory_text_print(FILE *to, const Graph *g, Arena *a) CHECKED;

#endif
