/* Two ways of crossing, both made of exchanges between every pair of processes.
 *
 * An AllReduce of P processes shares out the elements: each process gets everybody's parts of its share, adds them by
 * the same tree as one process would (graph/reduce_tree.h), and gives the sums to all.  So the bits do not depend on
 * how the devices are spread over processes, and with one part per process each sends and receives 2 (P - 1) / P of the
 * tensor, as in a ring. What is rarer: every process gets all inputs, and computes its own outputs.
 *
 * What comes lies in buffers as large as the whole tensor, so that addresses are those of the tensor's elements; of a
 * sum only the share's pages are ever touched, and only they take memory. */
#include "exec/run/collective_span.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/exchange.h"

struct Span {
    World *world;
    int size, rank, n_local;
    int n_in, n_out;
    Exchange x;
    int *owner;                     /* [n_in] the process that holds the input; -1: all do */
    void **staged_in, **staged_out; /* NULL: not needed */
    Tensor *in, *out;
    Parcel *send, *recv; /* [size] */
    struct iovec *pieces;
};

static int process_of(const Site *site, int device) { return device < 0 ? -1 : device / site->n_local; }

bool span_is_needed(const Node *n, const Site *site)
{
    for (int i = 0; site->world && i < n->n_in; i++)
        for (int o = 0; o < n->n_out && site->from[i] >= 0; o++)
            if (site->to[o] >= 0 && process_of(site, site->from[i]) != process_of(site, site->to[o]))
                return true;
    return false;
}

/* ---- creation ---- */

static Status stage(void **out, const Graph *g, ValueId v)
{
    size_t bytes = value_bytes(g, v);

    return (*out = malloc(bytes ? bytes : 1)) ? ST_OK : FAIL_NOMEM();
}

/* Has this process an output of tensor t? */
static bool has_output(const Span *s, const Site *site, int t)
{
    for (int d = 0; d < s->x.copies; d++)
        if (process_of(site, site->to[t * s->x.copies + d]) == s->rank)
            return true;
    return false;
}

static Status stage_all(Span *s, const Graph *g, const Node *n, const Site *site)
{
    for (int i = 0; i < n->n_in; i++) {
        s->owner[i] = process_of(site, site->from[i]);
        if (s->owner[i] >= 0 && s->owner[i] != s->rank)
            TRY(stage(&s->staged_in[i], g, n->in[i]));
    }
    for (int t = 0; exchange_reduces(&s->x) && t < s->x.tensors; t++)
        if (!has_output(s, site, t))
            TRY(stage(&s->staged_out[t * s->x.copies], g, n->out[t * s->x.copies]));
    return ST_OK;
}

static Status create(Span *s, const Graph *g, const Node *n, const Site *site)
{
    size_t most = (size_t)(n->n_in > n->n_out ? n->n_in : n->n_out);

    s->owner = calloc((size_t)n->n_in, sizeof *s->owner);
    s->staged_in = calloc((size_t)n->n_in, sizeof *s->staged_in);
    s->staged_out = calloc((size_t)n->n_out, sizeof *s->staged_out);
    s->in = calloc((size_t)n->n_in, sizeof *s->in);
    s->out = calloc((size_t)n->n_out, sizeof *s->out);
    s->send = calloc((size_t)s->size, sizeof *s->send);
    s->recv = calloc((size_t)s->size, sizeof *s->recv);
    s->pieces = calloc(2 * (size_t)s->size * most, sizeof *s->pieces);
    if (!s->owner || !s->staged_in || !s->staged_out || !s->in || !s->out || !s->send || !s->recv || !s->pieces)
        return FAIL_NOMEM();
    for (int r = 0; r < s->size; r++) {
        s->send[r].piece = s->pieces + (size_t)r * most;
        s->recv[r].piece = s->pieces + (size_t)(s->size + r) * most;
    }
    return stage_all(s, g, n, site);
}

Status span_create(Span **out, const Graph *g, const Node *n, const Site *site)
{
    Span *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->world = site->world;
    s->size = world_size(site->world);
    s->rank = world_rank(site->world);
    s->n_in = n->n_in;
    s->n_out = n->n_out;
    s->x = exchange_of(n);
    if ((st = create(s, g, n, site))) {
        span_free(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

void span_free(Span *s)
{
    if (!s)
        return;
    for (int i = 0; s->staged_in && i < s->n_in; i++)
        free(s->staged_in[i]);
    for (int o = 0; s->staged_out && o < s->n_out; o++)
        free(s->staged_out[o]);
    free(s->owner);
    free(s->staged_in);
    free(s->staged_out);
    free(s->in);
    free(s->out);
    free(s->send);
    free(s->recv);
    free(s->pieces);
    free(s);
}

/* ---- running ---- */

const Tensor *span_in(const Span *s) { return s->in; }
Tensor *span_out(const Span *s) { return s->out; }

void span_share(const Span *s, int64_t n, int64_t *from, int64_t *to)
{
    *from = exchange_share(n, s->rank, s->size);
    *to = exchange_share(n, s->rank + 1, s->size);
}

/* The share of one process of a sum, else all of the tensor. */
static void add_piece(const Span *s, Parcel *p, const Tensor *t, int rank)
{
    int64_t n = tensor_numel(t), from = exchange_reduces(&s->x) ? exchange_share(n, rank, s->size) : 0,
            to = exchange_reduces(&s->x) ? exchange_share(n, rank + 1, s->size) : n;
    size_t size = dtype_size(t->dtype);

    if (to > from)
        p->piece[p->n++] = (struct iovec){ (char *)t->data + (size_t)from * size, (size_t)(to - from) * size };
}

static void clear_parcels(Span *s)
{
    for (int r = 0; r < s->size; r++)
        s->send[r].n = s->recv[r].n = 0;
}

static void set_tensors(Span *s, const Tensor *in, const Tensor *out)
{
    for (int i = 0; i < s->n_in; i++) {
        s->in[i] = in[i];
        s->in[i].data = s->staged_in[i] ? s->staged_in[i] : in[i].data;
    }
    for (int o = 0; o < s->n_out; o++) {
        s->out[o] = out[o];
        s->out[o].data = s->staged_out[o] ? s->staged_out[o] : out[o].data;
    }
}

Status span_gather(Span *s, const Tensor *in, const Tensor *out, const atomic_bool *cancelled)
{
    set_tensors(s, in, out);
    clear_parcels(s);
    for (int i = 0; i < s->n_in; i++)
        for (int r = 0; r < s->size; r++)
            if (r != s->rank && s->owner[i] == s->rank)
                add_piece(s, &s->send[r], &s->in[i], r);
            else if (r != s->rank && s->owner[i] == r)
                add_piece(s, &s->recv[r], &s->in[i], s->rank);
    return world_exchange(s->world, s->send, s->recv, cancelled);
}

/* The first copy of tensor t that this process holds. */
static Tensor *held(const Span *s, int t)
{
    for (int d = 0; d < s->x.copies; d++)
        if (s->out[t * s->x.copies + d].data)
            return &s->out[t * s->x.copies + d];
    return NULL;
}

/* What has come for the first copy of a tensor to the others here. */
static void copy_shares(const Span *s, int t)
{
    const Tensor *first = held(s, t);
    int64_t n = tensor_numel(first), from, to;
    size_t size = dtype_size(first->dtype);

    span_share(s, n, &from, &to);
    for (int d = 0; d < s->x.copies; d++) {
        char *copy = s->out[t * s->x.copies + d].data;

        if (!copy || copy == first->data)
            continue;
        memcpy(copy, first->data, (size_t)from * size);
        memcpy(copy + (size_t)to * size, (char *)first->data + (size_t)to * size, (size_t)(n - to) * size);
    }
}

Status span_spread(Span *s, const atomic_bool *cancelled)
{
    clear_parcels(s);
    for (int t = 0; t < s->x.tensors; t++)
        for (int r = 0; r < s->size && held(s, t); r++)
            if (r != s->rank) {
                add_piece(s, &s->send[r], held(s, t), s->rank);
                add_piece(s, &s->recv[r], held(s, t), r);
            }
    TRY(world_exchange(s->world, s->send, s->recv, cancelled));
    for (int t = 0; t < s->x.tensors; t++)
        if (held(s, t))
            copy_shares(s, t);
    return ST_OK;
}
