/* Nodes whose output shapes depend on data: a graph with such nodes cannot be planned before a step. */
#ifndef DPX_DATA_SHAPES_H
#define DPX_DATA_SHAPES_H

#include "graph/ir/op.h"

bool all_shapes_known(const Graph *g);
/* Fails with E_UNSUPPORTED and a list of the nodes that make shapes depend on data; `what` begins the message. */
Status fail_dynamic(const Graph *g, const char *what) CHECKED;

#endif
