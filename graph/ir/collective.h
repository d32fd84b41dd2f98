/* The data movement of a collective: passes, executors and kernels read it here instead of naming operators.
 *
 * A collective takes `parts` inputs of each of `tensors` tensors and makes `copies` outputs of each: input t * parts +
 * i is part i of tensor t, output t * copies + c is copy c of it.  The operators differ in their parts and copies:
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

/* Describes a node whose attributes were checked (node_infer); in graph/ops/collective.c. */
Exchange exchange_of(const Node *n);

/* Cost model of a link without a description, in units of sending a byte: each message costs EXCHANGE_LATENCY (20
 * microseconds at some gigabytes a second), each added byte EXCHANGE_ADDED. */
enum { EXCHANGE_LATENCY = 1 << 16 };
#define EXCHANGE_ADDED 0.25

/* The collective's name in messages: "all-reduce". */
static inline const char *exchange_verb(const Exchange *e)
{
    if (e->sum)
        return e->split ? "reduce-scatter" : "all-reduce";
    if (e->joined)
        return e->split ? "all-to-all" : "all-gather";
    return e->split ? "scatter" : "broadcast";
}

/* All-gather: each copy is the concatenation of all pieces. */
static inline bool exchange_gathers(const Exchange *e) { return e->joined && !e->split; }
/* All-to-all: pieces along one axis become pieces along another; no device has the whole. */
static inline bool exchange_resplits(const Exchange *e) { return e->joined && e->split; }
/* All-reduce: each copy is the sum; devices share the additions by elements. */
static inline bool exchange_reduces(const Exchange *e) { return e->sum && !e->split; }
/* Broadcast or scatter: the only part, or a piece of it, goes to each copy. */
static inline bool exchange_distributes(const Exchange *e) { return e->tensors && !e->sum && !e->joined; }
/* The tensor to which output o belongs. */
static inline int exchange_tensor(const Exchange *e, int o) { return o / e->copies; }
/* The device of output o; -1: the host. */
static inline int exchange_device(const Exchange *e, int o)
{
    return e->n_device ? (int)e->device[o % e->n_device] : -1;
}

#endif
