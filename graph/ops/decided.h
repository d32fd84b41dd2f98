/* What the file's own sizes decided when it was read. */
#ifndef DPX_OPS_DECIDED_H
#define DPX_OPS_DECIDED_H

#include "graph/graph.h"

/* Has the input of this Decided node the value by which was decided?  True as long as it is not known. */
bool decided_holds(const Graph *g, const Node *n);
/* E_UNSUPPORTED when it has another. */
Status decided_check(const Graph *g, const Node *n) CHECKED;

#endif
