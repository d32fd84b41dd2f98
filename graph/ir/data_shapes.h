/* Finds the nodes whose output shapes depend on data: such a graph cannot be planned before a step. */
#ifndef DPX_DATA_SHAPES_H
#define DPX_DATA_SHAPES_H

#include "graph/ir/op.h"

bool all_shapes_known(const Graph *g);
/* E_UNSUPPORTED: lists the nodes by which shapes depend on data; `what` needs them. */
Status fail_dynamic(const Graph *g, const char *what) CHECKED;

#endif
