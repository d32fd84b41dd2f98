/* Holds how long each replica's part of an input is. */
#ifndef DPX_REPLICA_REACH_H
#define DPX_REPLICA_REACH_H

#include "graph/ir/graph.h"

typedef struct {
    struct InputReach *list;
    int n, replicas;
} Reach;

Status reach_copy(Reach *out, const Reach *from) CHECKED; /* reach_free is due, on failure too */
void reach_free(Reach *r);                                /* leaves none */
bool reach_equal(const Reach *a, const Reach *b);
static inline bool reach_same(const Reach *a, const Reach *b) { return !(a->n || b->n) || reach_equal(a, b); }

#endif
