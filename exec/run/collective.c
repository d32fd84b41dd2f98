/* Barrier, every device does its share directly in the others' memory, barrier.
 *
 * Sums are added element by element in the order of graph/tensor/reduce_tree.h, so neither the number of devices nor
 * which of them adds an element changes a bit.  An AllReduce is shared out by elements: each is read from all parts and
 * written to all outputs by one thread, which is why outputs may lie over inputs.  Copies, and pieces of a sum, are
 * shared out by destination.  Where other processes take part the first member brings what they hold before, and gives
 * them the sums after (exec/run/collective_span.h); its own devices meet in between.  Where a library adds for all
 * processes, they add the parts of this one first. */
#include "exec/run/collective.h"

#include <stdlib.h>
#include <string.h>

#include "exec/device/device.h"
#include "graph/base/host_memory.h"
#include "graph/base/spin.h"
#include "graph/tensor/reduce_tree.h"
#include "kernels/exchange.h"

struct Collective {
    Rendezvous *meet;
    Span *span; /* NULL: all is in this process */
    const Node *node;
    Exchange x;
    int n_member, n_in, n_out, first; /* first: device of this process */
    size_t element;                   /* of the sums: bytes */
    int *rank;                        /* [device] among the members; -1: not one */
    int *device;                      /* [n_out] that holds the output */
    int *program;                     /* of the sums: of so many parts */
    int parts;
    void **space; /* [member] of exchange_sum */
    void ***to;   /* [member] the copies of a tensor */
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

/* Sums a segment to n copies, whose memory begins at element `first`. */
static void reduce_to(const Collective *c, void *space, const Segment *g, void *const *to, int n, int64_t first)
{
    const size_t size = c->element;

    for (int64_t at = g->from; at < g->to; at += SUM_BLOCK) {
        size_t len = (size_t)(g->to - at < SUM_BLOCK ? g->to - at : SUM_BLOCK);
        const void *sum = c->parts ? exchange_sum(c->program, c->parts, space, g->in, at - g->first, len)
                                   : memset(space, 0, len * size);

        for (int d = 0; d < n; d++) {
            char *copy = to[d] ? (char *)to[d] + (size_t)(at - first) * size : NULL;

            if (copy && copy != sum)
                memcpy(copy, sum, len * size);
        }
    }
}

/* This member's elements of a segment, written to the copies on all devices. */
static void reduce_share(const Collective *c, int rank, const Segment *g, const Tensor *out)
{
    const int64_t n = g->to - g->from;
    Segment share = *g;
    void **to = c->to[rank];

    for (int d = 0; d < c->x.copies; d++)
        to[d] = out[g->tensor * c->x.copies + d].data;
    share.from = g->from + exchange_share(n, rank, c->n_member);
    share.to = g->from + exchange_share(n, rank + 1, c->n_member);
    if (g->own)
        reduce_to(c, c->space[rank], &share, &g->own, 1, g->from);
    else
        reduce_to(c, c->space[rank], &share, to, c->x.copies, 0);
}

/* The pieces of a segment that this device has, of a sum whose pieces are each in one stretch. */
static void reduce_own(const Collective *c, int device, const Segment *g, const Tensor *out)
{
    int64_t first = 0;

    for (int o = g->tensor * c->x.copies; o < (g->tensor + 1) * c->x.copies; o++) {
        const int64_t end = first + tensor_numel(&out[o]);
        Segment piece = *g;

        piece.from = first > g->from ? first : g->from;
        piece.to = end < g->to ? end : g->to;
        if (c->device[o] == device && out[o].data)
            reduce_to(c, c->space[c->rank[device]], &piece, (void *const[]){ out[o].data }, 1, first);
        first = end;
    }
}

/* The pieces of tensor t that this device has: of each of their rows all elements. */
static void reduce_pieces(const Collective *c, int device, int t, const Tensor *in, const Tensor *out)
{
    size_t size = dtype_size(in->dtype), offset = 0;
    void *space = c->space[c->rank[device]];

    for (int o = t * c->x.copies; o < (t + 1) * c->x.copies; o++) {
        const Piece p = piece_of(&out[o], in, c->x.axis);
        bool mine = c->device[o] == device && out[o].data;

        for (size_t at = 0; mine && at < p.rows * p.row;) {
            size_t row = at / p.row, in_row = at % p.row, len = (p.row - in_row) / size;

            len = len < SUM_BLOCK ? len : SUM_BLOCK;
            memcpy(
                (char *)out[o].data + at,
                exchange_sum(c->program, c->parts, space, in, (int64_t)((row * p.wide + offset + in_row) / size), len),
                len * size);
            at += len * size;
        }
        offset += p.row;
    }
}

/* ---- copies ---- */

static void join_pieces(const Collective *c, const Tensor *in, const Tensor *out)
{
    size_t offset = 0;

    for (int i = 0; i < c->x.parts; i++) {
        const Piece p = piece_of(&in[i], out, c->x.axis);

        if (p.rows != 1 || (char *)out->data + offset != in[i].data) /* it may have come to its place */
            piece_copy(&p, &in[i], out, offset, true);
        offset += p.row;
    }
}

/* The bytes that stand in front of this process's pieces in a row of the whole, of which the input is only that part; 0
 * when it is all of it. */
static size_t bytes_left_out(const Collective *c, const Tensor *in, const Tensor *out)
{
    int64_t all = 0, before = 0;

    for (int o = 0; o < c->n_out; o++) {
        all += out[o].shape.dim[c->x.axis];
        before += c->device[o] < c->first ? out[o].shape.dim[c->x.axis] : 0;
    }
    return in->shape.dim[c->x.axis] == all
               ? 0
               : (size_t)before * (size_t)shape_count(&in->shape, c->x.axis + 1, in->shape.rank) *
                     dtype_size(in->dtype);
}

/* The outputs of this device.  An output that is a view of the input is in place already. */
static void copy_outputs(const Collective *c, int device, const Tensor *in, Tensor *out)
{
    size_t offset = 0, left_out = c->x.split ? bytes_left_out(c, in, out) : 0;

    for (int o = 0; o < c->n_out; o++) {
        bool mine = c->device[o] == device && out[o].data;

        if (c->x.split) {
            const Piece p = piece_of(&out[o], &in[0], c->x.axis);

            if (mine && (char *)out[o].data != (char *)in[0].data + (offset - left_out))
                piece_copy(&p, &out[o], &in[0], offset - left_out, false);
            offset += p.row;
        } else if (mine && c->x.joined) {
            join_pieces(c, in + exchange_tensor(&c->x, o) * c->x.parts, &out[o]);
        } else if (mine && out[o].data != in[0].data) {
            memcpy(out[o].data, in[0].data, tensor_bytes(&in[0]));
        }
    }
}

/* The outputs of this device, of what each input has of them: of another process's, in the message that came. */
static void turn_pieces(const Collective *c, int device, const Tensor *in, Tensor *out)
{
    int64_t from_at = 0;

    for (int o = 0; o < c->n_out; from_at += out[o++].shape.dim[c->x.cut]) {
        const bool mine = c->device[o] == device && out[o].data;
        int64_t to_at = 0;

        for (int i = 0; mine && i < c->n_in; to_at += in[i++].shape.dim[c->x.axis]) {
            const Shape box = box_of(&in[i], &out[o], c->x.cut);
            const Tensor came = { in[i].dtype, box, c->span ? span_box(c->span, i, o) : NULL };

            if (came.data)
                box_copy(&box, &out[o], c->x.axis, to_at, &came, c->x.cut, 0);
            else if (in[i].data)
                box_copy(&box, &out[o], c->x.axis, to_at, &in[i], c->x.cut, from_at);
        }
    }
}

/* ---- creation ---- */

/* ((0 + 1) + 2) + ..., for exchange_sum. */
static void list_in_turn(int *program, int parts)
{
    for (int i = 0; i < parts; i++) {
        program[i ? 2 * i - 1 : 0] = i;
        if (i)
            program[2 * i] = TREE_ADD;
    }
}

static Status collective_prepare_sum(Collective *c, const Graph *g)
{
    const Node *n = c->node;
    DType t = in_value(g, n, 0)->dtype;
    bool in_turn = false;
    size_t bytes;

    c->element = dtype_size(t);
    c->parts = c->span ? span_parts(c->span, c->x.parts, &in_turn) : c->x.parts;
    c->program = calloc((size_t)(2 * c->x.parts), sizeof *c->program);
    c->space = calloc((size_t)c->n_member, sizeof *c->space);
    c->to = calloc((size_t)c->n_member, sizeof *c->to);
    if (!c->program || !c->space || !c->to)
        return FAIL_NOMEM();
    if (in_turn)
        list_in_turn(c->program, c->parts);
    else
        TRY(reduce_tree_program(c->program, c->x.span, c->parts));
    bytes = exchange_sum_bytes(c->program, c->parts, t);
    for (int i = 0; i < c->n_member; i++)
        if (!(c->space[i] = host_alloc(64, bytes)) || !(c->to[i] = calloc((size_t)c->x.copies, sizeof **c->to)))
            return FAIL_NOMEM();
    return ST_OK;
}

static Status collective_prepare(Collective *c, const Graph *g)
{
    const Node *n = c->node;

    if (!(c->device = calloc((size_t)n->n_out, sizeof *c->device)))
        return FAIL_NOMEM();
    for (int o = 0; o < n->n_out; o++)
        c->device[o] = exchange_device(&c->x, o) > 0 ? exchange_device(&c->x, o) : 0;
    return c->x.sum ? collective_prepare_sum(c, g) : ST_OK;
}

/* The members of this process. */
static void collective_count_members(Collective *c, const Site *site)
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
    c->first = site->first;
    if (span_is_needed(n, site))
        TRY_TO(fail, st, span_create(&c->span, g, n, site));
    collective_count_members(c, site);
    atomic_init(&c->arrived, 0);
    atomic_init(&c->generation, 0);
    TRY_TO(fail, st, collective_prepare(c, g));
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
        host_free(c->space[i]);
    for (int i = 0; c->to && i < c->n_member; i++)
        free(c->to[i]);
    span_free(c->span);
    free(c->space);
    free(c->to);
    free(c->program);
    free(c->device);
    free(c->rank);
    free(c);
}

/* ---- running ---- */

static void collective_compute(const Collective *c, int device, const Tensor *in, Tensor *out)
{
    for (int t = 0; c->x.sum && t < c->x.tensors; t++) {
        const Segment all = { .tensor = t,
                              .to = tensor_numel(&in[t * c->x.parts]),
                              .in = (Tensor *)(uintptr_t)&in[t * c->x.parts] };

        if (exchange_reduces(&c->x))
            reduce_share(c, c->rank[device], &all, out);
        else
            reduce_pieces(c, device, t, all.in, out);
    }
    if (exchange_resplits(&c->x))
        turn_pieces(c, device, in, out);
    else if (!c->x.sum)
        copy_outputs(c, device, in, out);
}

static void compute_segments(const Collective *c, int device)
{
    int n;
    const Segment *g = span_segments(c->span, &n);

    for (int k = 0; k < n; k++)
        if (span_spreads(c->span))
            reduce_share(c, c->rank[device], &g[k], span_out(c->span));
        else
            reduce_own(c, device, &g[k], span_out(c->span));
}

static Status run_round(Collective *c, int round, int device, const Tensor *in, const Tensor *out)
{
    bool leads = c->rank[device] == 0;

    if (leads)
        TRY(span_gather(c->span, round, in, out, &c->meet->cancelled));
    if (!meet(c))
        return E_INTERRUPTED;
    if (span_in_segments(c->span))
        compute_segments(c, device);
    else
        collective_compute(c, device, span_in(c->span), span_out(c->span));
    if (!span_spreads(c->span))
        return ST_OK;
    if (!meet(c))
        return E_INTERRUPTED;
    return leads ? span_spread(c->span, round, &c->meet->cancelled) : ST_OK;
}

Status collective_run(Collective *c, int device, const Tensor *in, Tensor *out)
{
    const int rounds = c->span ? span_rounds(c->span) : 0;

    if (!meet(c))
        return E_INTERRUPTED;
    if (!c->span)
        collective_compute(c, device, in, out);
    for (int k = 0; k < rounds; k++) {
        TRY(run_round(c, k, device, in, out));
        if (k + 1 < rounds && !meet(c)) /* what came lies in the same place next time */
            return E_INTERRUPTED;
    }
    return meet(c) ? ST_OK : E_INTERRUPTED;
}

void collective_set_staging(Collective *c, void *staging)
{
    if (c->span)
        span_set_staging(c->span, staging);
}
