/* What keeps a graph from being planned. */
#ifndef DPX_DYNAMIC_H
#define DPX_DYNAMIC_H

#include "graph/op.h"

/* E_UNSUPPORTED: lists the nodes by which shapes depend on data. */
Status fail_dynamic(const Graph *g) CHECKED;

#endif
