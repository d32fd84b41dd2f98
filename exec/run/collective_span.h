/* The part of a collective that crosses processes: what other processes' devices hold comes here, and sums go there. */
#ifndef DPX_COLLECTIVE_SPAN_H
#define DPX_COLLECTIVE_SPAN_H

#include <stdatomic.h>

#include "exec/world/world.h"
#include "graph/ir/collective.h"
#include "graph/ir/op.h"

/* Where a collective's devices and tensors are. */
typedef struct {
    World *world;         /* NULL: no other process, or one that is only thought of */
    int n_device;         /* of all processes, each of which has n_local of them */
    int first, n_local;   /* those of this process */
    const bool *member;   /* [n_device] whose memory it reads or writes */
    const int *from, *to; /* [n_in], [n_out] the device in whose memory the tensor is; -1: the host's, or nowhere */
    bool by_library;      /* what carries the world's messages is to add, in its own order, where it can */
    double latency_bytes; /* that a link takes as long for as for an empty message; 0: not known */
} Site;

typedef struct Span Span;

/* Is a sum of so many bytes, of so many parts, faster when every process gets and adds all parts (n - 1 messages, of
 * the parts of one) than when each adds a share and sends it on (twice as many, of 1/n of that)?  The same in all
 * processes. */
bool span_is_small(int64_t bytes, int parts, int processes, double latency_bytes);
/* Are the parts of this sum, so many of each tensor, sent whole?  The graph may show fewer of them
 * (BuildOptions.world).
 */
bool span_sends_whole(const Graph *g, const Node *n, int parts, int processes, double latency_bytes);

/* Does the collective need what is in another process?  Then it spans all processes. */
bool span_is_needed(const Node *n, const Site *site);
typedef struct {
    size_t staging; /* while the collective runs, of what comes from other processes and has no place of its own */
    size_t sums;    /* that the world keeps from then on where its library adds: what is added, and what comes of it */
} SpanBytes;
Status span_bytes(SpanBytes *out, const Graph *g, const Node *n, const Site *site) CHECKED;
Status span_create(Span **out, const Graph *g, const Node *n, const Site *site) CHECKED;
void span_free(Span *s); /* NULL is legal */
/* Lends it that memory, which may be that of other collectives: none of them runs meanwhile. */
void span_set_staging(Span *s, void *staging);

/* Elements [from, to) of a tensor, as this process is to add them. */
typedef struct {
    int tensor;
    int64_t from, to;
    Tensor *in; /* [span_parts] whose first element is the tensor's element `first` */
    int64_t first;
    void *own; /* where the sum goes: that has no copy in this process, or is of its own parts alone; else NULL */
} Segment;

/* How many of the n parts of a sum over processes this process adds: all of them by the tree; for a library only its
 * own, which may be none.  *in_turn: they are added from the first to the last. */
int span_parts(const Span *s, int n, bool *in_turn);

/* How often what follows is done, one after the other; the same number in every process. */
int span_rounds(const Span *s);
/* Brings what this process computes from: in span_in the inputs, where the node makes pieces that are scattered in
 * memory or copies; of other sums, in the segments of this round, which have nothing of span_in.  `in` and `out` are
 * the node's tensors, with data NULL where another process holds them; they lie in span_out, until the next call. */
Status span_gather(Span *s, int round, const Tensor *in, const Tensor *out, const atomic_bool *cancelled) CHECKED;
bool span_in_segments(const Span *s);
const Segment *span_segments(const Span *s, int *n);
const Tensor *span_in(const Span *s);
Tensor *span_out(const Span *s);
/* The piece of output o that input i has, dense, if it came from another process and is not in its place yet; else
 * NULL.  For exchanges that turn (exchange_resplits). */
void *span_box(const Span *s, int i, int o);
/* Do sums of this process lie in segments that go on to others? */
bool span_spreads(const Span *s);
/* Sends the segments on: the sums of this round to all processes, or sums of a process's own parts to the library. */
Status span_spread(Span *s, int round, const atomic_bool *cancelled) CHECKED;

#endif
