/* The names of a graph's values; graph.h has those of its functions that are for all. */
#ifndef DPX_NAME_TABLE_H
#define DPX_NAME_TABLE_H

#include "graph/ir/graph.h"

struct NameTable *names_create(Arena *a); /* NULL: out of memory */
/* The name that value `id` has, and which lives as long as the graph, is its own from now on.  Fails by Graph.status.
 */
void names_put(Graph *g, uint32_t id);
/* Before the value gets another: this one stays taken.  Fails by Graph.status. */
void names_retire(Graph *g, uint32_t id);
/* The table holds the present names of the graph's values alone: those given up, or of values that are gone, are free.
 */
void names_rebuild(Graph *g);
/* Has the value that had it been renamed? */
bool names_is_retired(const Graph *g, const char *name);

#endif
