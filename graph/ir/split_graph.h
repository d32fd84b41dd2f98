/* Splitting a graph in two: the nodes that can be planned, and those whose shapes depend on the data of a step. */
#ifndef DPX_SPLIT_GRAPH_H
#define DPX_SPLIT_GRAPH_H

#include "graph/ir/graph.h"

/* `known` receives the nodes whose results have known shapes and depend only on inputs, states, constants and each
 * other; its outputs are the values that `rest`, or an output of g, needs.  `rest` receives all other nodes and the
 * outputs of g; it reads values of `known` through inputs of the same names, after its own.  Both keep all inputs, and
 * the states that they read; neither has updates.  *known is NULL if it would have no outputs.  g must be sorted. */
Status graph_cut(Graph **known, Graph **rest, const Graph *g) CHECKED;

#endif
