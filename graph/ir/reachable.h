/* Does a way lead from one node to another?  Asked of a graph while a pass changes it.
 *
 * The search goes against the edges and leaves aside what stands before the node that it looks for, so that it costs
 * what lies between the two.  Where a change makes a node read what a later one computes, the order says nothing of
 * what stands behind that reader; reach_add_edge tells of it, and the search stays right until the graph is sorted. */
#ifndef DPX_REACHABLE_H
#define DPX_REACHABLE_H

#include "graph/ir/op.h"

typedef struct {
    const Graph *g;
    uint32_t *seen, *stack; /* [node] */
    uint32_t walk;
    uint32_t ordered; /* before this index all nodes stand behind what they read */
} Reachability;

/* Of the graph as it is now, of which nodes may go and to which none are added. */
Status reach_begin(Reachability *out, const Graph *g, Arena *a) CHECKED;
/* `reader` reads from now on what `from` computes. */
void reach_add_edge(Reachability *p, const Node *from, const Node *reader);
/* The graph was sorted. */
void reach_sorted(Reachability *p);
bool reach_path_exists(Reachability *p, const Node *from, const Node *to);
/* May `n` read v without waiting for it: is v an input or a state, made by a node that n waits for, or by one that
 * reads such values alone, as a Cast may be? */
bool reach_is_available(Reachability *p, ValueId v, const Node *n);

#endif
