/* graph-transform --summary: the layers of a model with their outputs, parameters and work. */
#ifndef DPX_SUMMARY_H
#define DPX_SUMMARY_H

#include <stdio.h>

#include "graph/ir/graph.h"

/* Prints a line for each layer of a graph whose shapes are known and whose parameters were found.  A layer is what the
 * names of parameters and nodes call one, "layer1.0.conv1", cut to `depth` components (0: whole).  With `json` the same
 * as {"layers": [...], "parameters", "trained", "flops", ...}. */
Status summary_print(FILE *to, const Graph *g, int depth, bool json) CHECKED;

#endif
