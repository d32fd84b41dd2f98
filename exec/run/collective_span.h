/* The part of a collective that crosses processes: what other processes' devices hold comes here, and sums go there. */
#ifndef DPX_COLLECTIVE_SPAN_H
#define DPX_COLLECTIVE_SPAN_H

#include <stdatomic.h>

#include "exec/world/world.h"
#include "graph/collective.h"
#include "graph/op.h"

/* Where a collective's devices and tensors are. */
typedef struct {
    World *world;         /* NULL: no other process */
    int n_device;         /* of all processes, each of which has n_local of them */
    int first, n_local;   /* those of this process */
    const bool *member;   /* [n_device] whose memory it reads or writes */
    const int *from, *to; /* [n_in], [n_out] the device in whose memory the tensor is; -1: the host's, or nowhere */
} Site;

typedef struct Span Span;

/* Does the collective need what is in another process?  Then it spans all processes. */
bool span_is_needed(const Node *n, const Site *site);
Status span_create(Span **out, const Graph *g, const Node *n, const Site *site) CHECKED;
void span_free(Span *s); /* NULL is legal */

/* Brings the other processes' inputs here, or of sums their parts of this process's share of the elements.  `in` and
 * `out` are the node's tensors, with data NULL where another process holds them; they hold it in span_in and span_out,
 * until the next call. */
Status span_gather(Span *s, const Tensor *in, const Tensor *out, const atomic_bool *cancelled) CHECKED;
const Tensor *span_in(const Span *s);
Tensor *span_out(const Span *s);
/* Of a sum: the elements [from, to) of n that this process adds up, in span_out's tensors. */
void span_share(const Span *s, int64_t n, int64_t *from, int64_t *to);
/* Of a sum: everybody's shares to all. */
Status span_spread(Span *s, const atomic_bool *cancelled) CHECKED;

#endif
