/* Groups of nodes that run together as the update of one state. */
#ifndef DPX_SCHEDULE_GROUPS_H
#define DPX_SCHEDULE_GROUPS_H

#include "graph/ir/graph.h"

enum { NO_GROUP = -1 };

/* For a sorted graph, whose node i is used by edge[first[i]..first[i+1]).  `owner`: [n_node] the group (a number below
 * n_update) or NO_GROUP; every user of a group's node is in the group.  `writer`: [n_value] the group that computes the
 * next value of a state, or NO_GROUP. */
Status schedule_groups(int **owner, int **writer, const Graph *g, const uint32_t *first, const uint32_t *edge,
                       Arena *a) CHECKED;

static inline const Node *schedule_producer(const Graph *g, ValueId v)
{
    return has_value(v) ? value(g, v)->producer : NULL;
}

static inline int schedule_replicas(const Graph *g)
{
    int n = 0;

    FOR_NODES(g, x)
        n = x->replica >= n ? x->replica + 1 : n;
    return n;
}

/* In a graph of one replica there are no turns: all nodes count as the device's. */
static inline bool schedule_in_replica(int n_replica, const Node *n) { return n_replica > 1 && n->replica >= 0; }

#endif
