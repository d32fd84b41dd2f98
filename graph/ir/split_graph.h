/* Splits a graph in two: the nodes that can be planned, and those whose shapes only the data of a step decide. */
#ifndef DPX_SPLIT_GRAPH_H
#define DPX_SPLIT_GRAPH_H

#include "graph/ir/graph.h"

/* `known`: the nodes whose results are of known shape and follow from inputs, states, constants and each other, with
 * what the others or the outputs need of them as its outputs.  `rest`: all others, with the graph's outputs; what it
 * takes of `known` are inputs of these names, behind its own.  Both keep all inputs, and the states that they read.
 * *known is NULL where there is nothing for it.  `g` is sorted; its updates are left
 * out. */
Status graph_cut(Graph **known, Graph **rest, const Graph *g) CHECKED;

#endif
