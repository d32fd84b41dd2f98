/* Marks a graph as failed when memory runs out; later operations on the graph then fail too. */
#include "graph/ir/graph.h"

Status graph_fail_nomem(Graph *g)
{
    if (!g->status)
        g->status = FAIL_NOMEM();
    return g->status;
}
