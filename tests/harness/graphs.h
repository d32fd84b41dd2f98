/* Graphs that tests begin with, and what they count in them. */
#ifndef DPX_TESTS_GRAPHS_H
#define DPX_TESTS_GRAPHS_H

#include "passes/pass.h"

/* models/NAME.onnx, as it is and after the pipeline; NULL fails the test. */
Graph *model_import(const char *name);
Graph *model_build(const char *name, const BuildOptions *opt);

int count_nodes(const Graph *g, const OpDef *op);

#endif
