/* The table of a graph's value names, for files that change values; graph.h declares look-up and renaming. */
#ifndef DPX_NAME_TABLE_H
#define DPX_NAME_TABLE_H

#include "graph/ir/graph.h"

struct NameTable *names_create(Arena *a); /* NULL: out of memory */
/* Enters the name of value `id`, which lives as long as the graph.  Fails by Graph.status. */
void names_put(Graph *g, uint32_t id);
/* Called before value `id` is renamed: its old name stays taken, but finds no value.  Fails by Graph.status. */
void names_retire(Graph *g, uint32_t id);
/* Enters the present names of all values again; retired names, and those of dropped values, become free. */
void names_rebuild(Graph *g);
/* Did a value have this name before it was renamed? */
bool names_is_retired(const Graph *g, const char *name);

#endif
