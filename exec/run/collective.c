/* Barrier, every device does its share directly in the others' memory, barrier.
 *
 * Sums are added element by element in the order of graph/reduce_tree.h, so neither the number of devices nor which of
 * them adds an element changes a bit.  An AllReduce is shared out by elements: each is read from all parts and written
 * to all outputs by one thread, which is why outputs may lie over inputs.  Copies, and pieces of a sum, are shared out
 * by destination.  Where other processes take part the first member brings what they hold before, and gives them the
 * sums after (exec/run/collective_span.h); its own devices meet in between. */
#include "exec/run/collective.h"

#include <stdlib.h>
#include <string.h>

#include "exec/device/device.h"
#include "graph/base/spin.h"
#include "graph/reduce_tree.h"
#include "kernels/exchange.h"

struct Collective {
    Rendezvous *meet;
    Span *span; /* NULL: all is in this process */
    const Node *node;
    Exchange x;
    int n_member, n_in, n_out;
    int *rank;    /* [device] among the members; -1: not one */
    int *device;  /* [n_out] that holds the output */
    int *program; /* of the sums: reduce_tree_program */
    void **space; /* [member] of exchange_sum */
    atomic_uint arrived, generation;
};

/* ---- meeting ---- */

void rendezvous_init(Rendezvous *r, bool spin)
{
    atomic_init(&r->cancelled, false);
    atomic_init(&r->sleepers, 0);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->spin = spin;
}

void rendezvous_destroy(Rendezvous *r)
{
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

static void wake(Rendezvous *r)
{
    if (!atomic_load(&r->sleepers))
        return;
    pthread_mutex_lock(&r->lock);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

void rendezvous_cancel(Rendezvous *r)
{
    atomic_store(&r->cancelled, true);
    wake(r);
}

static bool released(const Collective *c, unsigned generation)
{
    return atomic_load(&c->generation) != generation || atomic_load(&c->meet->cancelled);
}

/* Waits until all members are here; false when cancelled. */
static bool meet(Collective *c)
{
    Rendezvous *r = c->meet;
    unsigned generation = atomic_load(&c->generation);

    if (c->n_member == 1)
        return true;
    if ((int)atomic_fetch_add(&c->arrived, 1) + 1 == c->n_member) {
        atomic_store(&c->arrived, 0);
        atomic_fetch_add(&c->generation, 1);
        wake(r);
        return !atomic_load(&r->cancelled);
    }
    for (Spin s = spin_begin(r->spin); spin_on(&s);)
        if (released(c, generation))
            return !atomic_load(&r->cancelled);
    pthread_mutex_lock(&r->lock);
    atomic_fetch_add(&r->sleepers, 1);
    while (!released(c, generation))
        pthread_cond_wait(&r->changed, &r->lock);
    atomic_fetch_sub(&r->sleepers, 1);
    pthread_mutex_unlock(&r->lock);
    return !atomic_load(&r->cancelled);
}

void collective_reset(Collective *c) { atomic_store(&c->arrived, 0); }

/* ---- sums ---- */

/* This member's elements of one tensor, written to its copies on all devices. */
static void reduce_share(const Collective *c, int rank, const Tensor *in, Tensor *out)
{
    int64_t first = 0, n = tensor_numel(in), end;
    size_t size = dtype_size(in->dtype);

    if (c->span)
        span_share(c->span, n, &first, &n);
    n -= first;
    end = first + exchange_share(n, rank + 1, c->n_member);
    for (int64_t at = first + exchange_share(n, rank, c->n_member); at < end; at += SUM_BLOCK) {
        size_t len = (size_t)(end - at < SUM_BLOCK ? end - at : SUM_BLOCK);
        const void *sum = exchange_sum(c->program, c->x.parts, c->space[rank], in, at, len);

        for (int d = 0; d < c->x.copies; d++) {
            char *to = out[d].data ? (char *)out[d].data + (size_t)at * size : NULL;

            if (to && to != sum)
                memcpy(to, sum, len * size);
        }
    }
}

/* The pieces of the sum that this device has: of each of their rows all elements. */
static void reduce_pieces(const Collective *c, int device, const Tensor *in, Tensor *out)
{
    size_t size = dtype_size(in->dtype), offset = 0;
    void *space = c->space[c->rank[device]];

    for (int o = 0; o < c->n_out; o++) {
        const Piece p = piece_of(&out[o], in, c->x.axis);
        bool mine = c->device[o] == device && out[o].data;

        for (size_t at = 0; mine && at < p.rows * p.row;) {
            size_t row = at / p.row, in_row = at % p.row, len = (p.row - in_row) / size;

            len = len < SUM_BLOCK ? len : SUM_BLOCK;
            memcpy((char *)out[o].data + at,
                   exchange_sum(c->program, c->x.parts, space, in, (int64_t)((row * p.wide + offset + in_row) / size),
                                len),
                   len * size);
            at += len * size;
        }
        offset += p.row;
    }
}

/* ---- copies ---- */

/* The outputs of this device.  An output that is a view of the input is in place already. */
static void copy_outputs(const Collective *c, int device, const Tensor *in, Tensor *out)
{
    size_t offset = 0, part = 0;

    for (int o = 0; o < c->n_out; o++) {
        bool mine = c->device[o] == device && out[o].data;

        if (c->x.split) {
            const Piece p = piece_of(&out[o], &in[0], c->x.axis);

            if (mine && (char *)out[o].data != (char *)in[0].data + offset)
                piece_copy(&p, &out[o], &in[0], offset, false);
            offset += p.row;
        } else if (mine && !c->x.joined) {
            if (out[o].data != in[0].data)
                memcpy(out[o].data, in[0].data, tensor_bytes(&in[0]));
        } else if (mine) {
            part = 0;
            for (int i = 0; i < c->n_in; i++) {
                const Piece p = piece_of(&in[i], &out[o], c->x.axis);

                piece_copy(&p, &in[i], &out[o], part, true);
                part += p.row;
            }
        }
    }
}

/* ---- creation ---- */

static Status prepare_sum(Collective *c, const Graph *g)
{
    const Node *n = c->node;
    DType t = in_value(g, n, 0)->dtype;
    size_t bytes;

    c->program = calloc((size_t)(2 * c->x.parts), sizeof *c->program);
    c->space = calloc((size_t)c->n_member, sizeof *c->space);
    if (!c->program || !c->space)
        return FAIL_NOMEM();
    TRY(reduce_tree_program(c->program, c->x.span, c->x.parts));
    bytes = exchange_sum_bytes(c->program, c->x.parts, t);
    for (int i = 0; i < c->n_member; i++)
        if (!(c->space[i] = aligned_alloc(64, bytes)))
            return FAIL_NOMEM();
    return ST_OK;
}

static Status prepare(Collective *c, const Graph *g)
{
    const Node *n = c->node;

    if (!(c->device = calloc((size_t)n->n_out, sizeof *c->device)))
        return FAIL_NOMEM();
    for (int o = 0; o < n->n_out; o++)
        c->device[o] = exchange_device(&c->x, o) > 0 ? exchange_device(&c->x, o) : 0;
    return c->x.sum ? prepare_sum(c, g) : ST_OK;
}

/* The members of this process. */
static void count_members(Collective *c, const Site *site)
{
    for (int d = 0; d < site->n_device; d++) {
        bool local = d >= site->first && d < site->first + site->n_local;

        c->rank[d] = local && (c->span || site->member[d]) ? c->n_member++ : -1;
    }
}

Status collective_create(Collective **out, Rendezvous *r, const Graph *g, const Node *n, const Site *site)
{
    Collective *c = calloc(1, sizeof *c);
    Status st = ST_OK;

    if (!c || !(c->rank = calloc((size_t)site->n_device, sizeof *c->rank)))
        TRY_TO(fail, st, FAIL_NOMEM());
    c->meet = r;
    c->node = n;
    c->x = exchange_of(n);
    c->n_in = n->n_in;
    c->n_out = n->n_out;
    if (span_is_needed(n, site))
        TRY_TO(fail, st, span_create(&c->span, g, n, site));
    count_members(c, site);
    atomic_init(&c->arrived, 0);
    atomic_init(&c->generation, 0);
    TRY_TO(fail, st, prepare(c, g));
    *out = c;
    return ST_OK;
fail:
    collective_free(c);
    return st;
}

bool collective_has(const Collective *c, int device) { return c->rank[device] >= 0; }

void collective_free(Collective *c)
{
    if (!c)
        return;
    for (int i = 0; c->space && i < c->n_member; i++)
        free(c->space[i]);
    span_free(c->span);
    free(c->space);
    free(c->program);
    free(c->device);
    free(c->rank);
    free(c);
}

/* ---- running ---- */

static void compute(const Collective *c, int device, const Tensor *in, Tensor *out)
{
    if (exchange_reduces(&c->x))
        for (int t = 0; t < c->x.tensors; t++)
            reduce_share(c, c->rank[device], in + t * c->x.parts, out + t * c->x.copies);
    else if (c->x.sum)
        reduce_pieces(c, device, in, out);
    else
        copy_outputs(c, device, in, out);
}

static Status run_span(Collective *c, int device, const Tensor *in, const Tensor *out)
{
    bool leads = c->rank[device] == 0;

    if (leads)
        TRY(span_gather(c->span, in, out, &c->meet->cancelled));
    if (!meet(c))
        return E_INTERRUPTED;
    compute(c, device, span_in(c->span), span_out(c->span));
    if (!exchange_reduces(&c->x))
        return ST_OK;
    if (!meet(c))
        return E_INTERRUPTED;
    return leads ? span_spread(c->span, &c->meet->cancelled) : ST_OK;
}

Status collective_run(Collective *c, int device, const Tensor *in, Tensor *out)
{
    if (!meet(c))
        return E_INTERRUPTED;
    if (c->span)
        TRY(run_span(c, device, in, out));
    else
        compute(c, device, in, out);
    return meet(c) ? ST_OK : E_INTERRUPTED;
}
