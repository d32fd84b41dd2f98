/* The check of a graph's invariants, which runs after every pass in debug builds. */
#ifndef DPX_VERIFY_H
#define DPX_VERIFY_H

#include "graph/ir/graph.h"

/* E_INTERNAL naming the first broken invariant: order, single assignment, arity, declared attributes, known operators,
 * unique names, updates of state by values of the same type and shape, constants with data. */
Status graph_verify(const Graph *g) CHECKED;

#endif
