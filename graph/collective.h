/* What a collective does, said once: passes, executors and kernels read it here and not off the operator.
 *
 * A collective takes `parts` inputs of each of `tensors` tensors and makes `copies` outputs of each: input t * parts +
 * i is part i of tensor t, output t * copies + c is copy c of it.  What parts and copies are tells the operators apart:
 *
 *                    sum   joined  split
 *   AllReduce        yes                   partial sums; every copy is the total
 *   ReduceScatter    yes           yes     partial sums; copy c is a piece of the total
 *   AllGather              yes             pieces; every copy is the whole
 *   Scatter                        yes     the whole; copy c is a piece of it
 *   Broadcast                              the whole; so is every copy */
#ifndef DPX_GRAPH_COLLECTIVE_H
#define DPX_GRAPH_COLLECTIVE_H

#include "graph/graph.h"

typedef struct {
    int tensors, parts, copies; /* tensors 0: the node is no collective */
    bool sum;                   /* parts are added by the tree of `span` (graph/reduce_tree.h) */
    bool joined, split;         /* parts, copies are pieces along `axis` */
    int axis;                   /* -1: there are no pieces */
    const int64_t *span;        /* [2 * parts] of a sum: the replicas of each part */
    const int64_t *device;      /* [n_device] of the copies, in turn; -1: the host */
    int n_device;
} Exchange;

/* Of a node whose attributes were checked (node_infer); graph/ops/collective.c. */
Exchange exchange_of(const Node *n);

/* In words: "all-reduce". */
static inline const char *exchange_verb(const Exchange *e)
{
    if (e->sum)
        return e->split ? "reduce-scatter" : "all-reduce";
    return e->joined ? "all-gather" : e->split ? "scatter" : "broadcast";
}

/* One sum for all: it is shared out by elements. */
static inline bool exchange_reduces(const Exchange *e) { return e->sum && !e->split; }
/* The one input, or a piece of it, goes to each. */
static inline bool exchange_spreads(const Exchange *e) { return e->tensors && !e->sum && !e->joined; }
/* The tensor that output o is of. */
static inline int exchange_tensor(const Exchange *e, int o) { return o / e->copies; }
/* That output o is on. */
static inline int exchange_device(const Exchange *e, int o)
{
    return e->n_device ? (int)e->device[o % e->n_device] : -1;
}

#endif
