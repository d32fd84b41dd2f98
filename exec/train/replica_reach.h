/* Holds how long each replica's part of an input is. */
#ifndef DPX_REPLICA_REACH_H
#define DPX_REPLICA_REACH_H

#include "graph/ir/graph.h"

typedef struct {
    struct InputReach *list;
    int n, replicas;
} ReplicaReach;

Status reach_copy(ReplicaReach *out, const ReplicaReach *from) CHECKED; /* reach_free is due, on failure too */
void reach_free(ReplicaReach *r);                                       /* leaves none */
bool reach_equal(const ReplicaReach *a, const ReplicaReach *b);
static inline bool reach_same(const ReplicaReach *a, const ReplicaReach *b)
{
    return !(a->n || b->n) || reach_equal(a, b);
}

#endif
