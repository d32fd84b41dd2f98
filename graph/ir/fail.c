/* Out of memory as a graph's sticky failure. */
#include "graph/ir/graph.h"

Status graph_fail_nomem(Graph *g)
{
    if (!g->status)
        g->status = FAIL_NOMEM();
    return g->status;
}
