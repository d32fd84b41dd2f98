/* What a collective does, said once: passes, executors and kernels read it here and not off the operator.
 *
 * A collective takes `parts` inputs of each of `tensors` tensors and makes `copies` outputs of each: input t * parts +
 * i is part i of tensor t, output t * copies + c is copy c of it.  What parts and copies are tells the operators apart:
 *
 *                    sum   joined  split
 *   AllReduce        yes                   partial sums; every copy is the total
 *   ReduceScatter    yes           yes     partial sums; copy c is a piece of the total
 *   AllGather              yes             pieces; every copy is the whole
 *   AllToAll               yes     yes     pieces along `axis`; copy c is a piece along `cut`
 *   Scatter                        yes     the whole; copy c is a piece of it
 *   Broadcast                              the whole; so is every copy */
#ifndef DPX_GRAPH_COLLECTIVE_H
#define DPX_GRAPH_COLLECTIVE_H

#include "graph/ir/graph.h"

typedef struct {
    int tensors, parts, copies; /* tensors 0: the node is no collective */
    bool sum;                   /* parts are added by the tree of `span` (graph/tensor/reduce_tree.h) */
    bool joined, split;         /* parts are pieces along `axis`, copies along `cut` */
    int axis, cut;              /* -1: there are no pieces.  `axis` is `cut` where parts are none */
    const int64_t *span;        /* [2 * parts] of a sum: the replicas of each part */
    const int64_t *device;      /* [n_device] of the copies, in turn; -1: the host */
    int n_device;
} Exchange;

/* Of a node whose attributes were checked (node_infer); graph/ops/collective.c. */
Exchange exchange_of(const Node *n);

/* What is not told of links: a message takes as long as so many more bytes would, 20 microseconds of some gigabytes a
 * second; adding bytes, so much of the time of sending them. */
enum { EXCHANGE_LATENCY = 1 << 16 };
#define EXCHANGE_ADDED 0.25

/* In words: "all-reduce". */
static inline const char *exchange_verb(const Exchange *e)
{
    if (e->sum)
        return e->split ? "reduce-scatter" : "all-reduce";
    if (e->joined)
        return e->split ? "all-to-all" : "all-gather";
    return e->split ? "scatter" : "broadcast";
}

/* The whole of its pieces goes to all. */
static inline bool exchange_gathers(const Exchange *e) { return e->joined && !e->split; }
/* Pieces along one axis become pieces along another; nobody has the whole. */
static inline bool exchange_resplits(const Exchange *e) { return e->joined && e->split; }
/* One sum for all: it is shared out by elements. */
static inline bool exchange_reduces(const Exchange *e) { return e->sum && !e->split; }
/* The one input, or a piece of it, goes to each. */
static inline bool exchange_distributes(const Exchange *e) { return e->tensors && !e->sum && !e->joined; }
/* The tensor that output o is of. */
static inline int exchange_tensor(const Exchange *e, int o) { return o / e->copies; }
/* That output o is on. */
static inline int exchange_device(const Exchange *e, int o)
{
    return e->n_device ? (int)e->device[o % e->n_device] : -1;
}

#endif
