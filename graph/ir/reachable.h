/* Reachability: whether a path leads from one node to another, in a graph that a pass is changing.
 *
 * The search walks from reader to producer and skips nodes before the one that it looks for, so it visits only nodes
 * between the two.  A change may make a node read the result of a later one; reach_add_edge records such an edge, since
 * the order of the nodes behind that reader no longer helps.  The search stays right until the graph is sorted. */
#ifndef DPX_REACHABLE_H
#define DPX_REACHABLE_H

#include "graph/ir/op.h"

typedef struct {
    const Graph *g;
    uint32_t *seen, *stack; /* [node] */
    uint32_t walk;          /* number of the present search, the mark in `seen` */
    uint32_t ordered;       /* nodes before this index stand behind all that they read */
} Reachability;

/* Prepares searches in g.  Nodes may be removed afterwards, but none added.  The tables are made in `a`. */
Status reach_begin(Reachability *out, const Graph *g, Arena *a) CHECKED;
/* Records that `reader` now reads a result of `from`. */
void reach_add_edge(Reachability *p, const Node *from, const Node *reader);
/* Records that the graph was sorted. */
void reach_sorted(Reachability *p);
/* Does `to` depend on a result of `from`? */
bool reach_path_exists(Reachability *p, const Node *from, const Node *to);
/* May `n` read v without a new dependence?  True if v is an input or a state, if n depends on its producer already, or
 * on all inputs of its producer (a Cast, for example). */
bool reach_is_available(Reachability *p, ValueId v, const Node *n);

#endif
