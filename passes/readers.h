/* Who reads a value, listed in one walk over the graph, and a change of what is read, made in one walk. */
#ifndef DPX_READERS_H
#define DPX_READERS_H

#include "graph/graph.h"

typedef struct {
    Node *n;
    int in;
} Reader;

/* Those of value i are list[first[i] .. first[i + 1]), in the order of the nodes. */
typedef struct {
    const Graph *g;
    Reader *list;
    uint32_t *first;
    bool *output; /* an output is value i */
} Readers;

/* Of the graph as it is now, in `a`. */
Status readers_find(Readers *out, const Graph *g, Arena *a) CHECKED;
/* The node that alone reads `v`; NULL when there are several, or none, or an output is `v`. */
const Node *readers_only(const Readers *r, ValueId v);

/* What reads value i, or is an output or an update by it, takes by[i] instead, for i < n where that is one; a value
 * that was made of i, and replaces it, goes on reading it. */
Status readers_redirect(Graph *g, const ValueId *by, uint32_t n) CHECKED;

#endif
