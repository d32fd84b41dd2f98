/* Five ways of crossing, all made of exchanges between every pair of processes but one, by a library's own sums.
 *
 * Sums are shared out by elements: each process gets everybody's parts of its share, and adds them by the same tree as
 * one process would (graph/tensor/reduce_tree.h), so the bits do not depend on how the devices are spread over
 * processes.  For AllReduce a share is a stretch of each tensor, and the sums go to all: with one part per process each
 * sends and receives 2 (P - 1) / P of the tensor, as in a ring.  For ReduceScatter the share is the part that the
 * process's devices get; each process sends and receives (P - 1) / P of the tensor.  Received shares are added round by
 * round, a few elements at a time, so that little memory serves sums of any size.
 *
 * The pieces of AllGather go to their places in the first copy that the receiver has.  In AllToAll, whose pieces become
 * pieces along another axis, each process gets the parts of the others' pieces that its own pieces hold.  A part that
 * is not in one stretch is packed first, and its reader unpacks it.
 *
 * Rarer collectives, such as those whose pieces are not in one stretch of memory each, send everything to every process
 * that has outputs, and each computes its own.  So do small AllReduces, such as batch-norm's statistics: every process
 * adds all parts by the same tree, in one turn of messages instead of two.
 *
 * By a library: each process adds its own parts of all shares, side by side, and the world adds those, as it pleases
 * (world_add).  That is for sums of floats where every process knows which part belongs to which process. */
#include "exec/run/collective_span.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/exchange.h"

enum { ROUND = 4 << 20 /* bytes of a part that come at a time */, STAGE_ALIGN = 64 };
enum { MOST_WHOLE = 1 << 20 /* bytes of a sum whose parts are sent whole, which wait all at once */ };

/* How it crosses. */
typedef enum { IN_SHARES, IN_PLACE, IN_BOXES, WHOLE, BY_LIBRARY } Way;

struct Span {
    World *world;
    char *name; /* of the node, for who waits */
    int size, rank, n_in, n_out;
    Way way;
    Exchange x;
    int *owner, *holder;    /* [n_in], [n_out] the process that has the tensor; -1: all, or none */
    int64_t *numel, *start; /* [tensors], [n_out] of a tensor; the elements before an output's piece */
    size_t element;         /* bytes */
    int64_t chunk;          /* elements of a round */
    int n_round, n_slot;    /* parts that come from others, of a tensor */
    char *staging;
    size_t *at; /* WHOLE: [n_in] where in it an input is */
    void **box; /* IN_BOXES: [n_in][n_out] what came of the input for the output; NULL: nothing, or in its place */
    int n_own;  /* BY_LIBRARY: parts of a tensor that are this process's, */
    int *count; /* [size] elements of each process's share in this round, which lie in `sums`; */
    char *sums;
    int first_mine; /* the segment with which this process's share begins */
    Tensor *in, *out, *part;
    Segment *segment;
    int n_segment;
    Parcel *send, *recv; /* [size] */
    struct iovec *pieces;
};

static int process_of(const Site *site, int device) { return device < 0 ? -1 : device / site->n_local; }

bool span_is_needed(const Node *n, const Site *site)
{
    for (int i = 0; site->n_local < site->n_device && i < n->n_in; i++)
        for (int o = 0; o < n->n_out && site->from[i] >= 0; o++)
            if (site->to[o] >= 0 && process_of(site, site->from[i]) != process_of(site, site->to[o]))
                return true;
    return false;
}

/* ---- creation ---- */

/* Is each piece one stretch of its tensor? */
static bool in_one_stretch(const Graph *g, const Node *n, const Exchange *x)
{
    for (int t = 0; t < x->tensors; t++)
        if (shape_count(in_value(g, n, t * x->parts)->shape, 0, x->axis) != 1)
            return false;
    return true;
}

/* Does every tensor have its parts where the first has them, each in one process?  The same in all processes. */
static bool parts_alike(const Exchange *x, const Site *site)
{
    for (int i = 0; i < x->tensors * x->parts; i++)
        if (site->from[i] < 0 || process_of(site, site->from[i]) != process_of(site, site->from[i % x->parts]))
            return false;
    return true;
}

bool span_is_small(int64_t bytes, int parts, int processes, double latency_bytes)
{
    const double n = processes, each = ceil(parts / n), sent = (each * (n - 1) - 1) / n;

    return bytes <= MOST_WHOLE &&
           (double)bytes * (sent + EXCHANGE_ADDED * each) < (latency_bytes > 0 ? latency_bytes : EXCHANGE_LATENCY);
}

bool span_sends_whole(const Graph *g, const Node *n, int parts, int processes, double latency_bytes)
{
    const Exchange x = exchange_of(n);
    int64_t bytes = 0;

    for (int t = 0; t < x.tensors; t++)
        bytes += (int64_t)value_bytes(g, n->in[t * x.parts]);
    return exchange_reduces(&x) && span_is_small(bytes, parts, processes, latency_bytes);
}

static Way way_of(const Graph *g, const Node *n, const Exchange *x, const Site *site)
{
    const DType type = in_value(g, n, 0)->dtype;

    if (exchange_resplits(x))
        return IN_BOXES;
    if (!exchange_reduces(x) && !((x->sum || x->joined) && in_one_stretch(g, n, x)))
        return WHOLE;
    if (!x->sum)
        return IN_PLACE;
    if (site->by_library && (type == DT_FLOAT32 || type == DT_FLOAT64) && parts_alike(x, site))
        return BY_LIBRARY;
    return span_sends_whole(g, n, x->parts, site->n_device / site->n_local, site->latency_bytes) ? WHOLE : IN_SHARES;
}

/* The elements of tensor t that process r adds up. */
static void share_of(const Span *s, int t, int r, int64_t *from, int64_t *to)
{
    const int64_t n = s->numel[t];

    if (exchange_reduces(&s->x)) {
        *from = exchange_share(n, r, s->size);
        *to = exchange_share(n, r + 1, s->size);
        return;
    }
    *from = *to = n;
    for (int o = t * s->x.copies; o < (t + 1) * s->x.copies; o++) {
        int64_t end = o + 1 < (t + 1) * s->x.copies ? s->start[o + 1] : n;

        if (s->holder[o] != r || end == s->start[o])
            continue;
        *from = s->start[o] < *from ? s->start[o] : *from;
        *to = end;
    }
}

static int64_t share_elements(const Span *s, int r)
{
    int64_t sum = 0, from, to;

    for (int t = 0; t < s->x.tensors; t++) {
        share_of(s, t, r, &from, &to);
        sum += to > from ? to - from : 0;
    }
    return sum;
}

static bool has_outputs(const Span *s, int r)
{
    for (int o = 0; o < s->n_out; o++)
        if (s->holder[o] == r)
            return true;
    return false;
}

static void plan_rounds(Span *s)
{
    const int64_t fits = (int64_t)(ROUND / s->element) / (s->way == BY_LIBRARY ? s->size : 1);
    int64_t most = 1;

    for (int r = 0; r < s->size; r++)
        most = share_elements(s, r) > most ? share_elements(s, r) : most;
    s->chunk = fits < most ? fits : most;
    s->n_round = (int)((most + s->chunk - 1) / s->chunk);
    for (int t = 0; t < s->x.tensors; t++) {
        int remote = 0;

        for (int i = t * s->x.parts; i < (t + 1) * s->x.parts; i++)
            remote += s->owner[i] >= 0 && s->owner[i] != s->rank;
        s->n_slot = remote > s->n_slot ? remote : s->n_slot;
    }
}

static size_t aligned(size_t bytes) { return (bytes + STAGE_ALIGN - 1) & ~(size_t)(STAGE_ALIGN - 1); }

static size_t slot_bytes(const Span *s) { return aligned((size_t)s->chunk * s->element); }

/* Does what input i has of output o, which are in different processes, lie in one stretch of this process's? */
static bool is_stretch(const Span *s, const Shape *box, int i)
{
    return shape_count(box, 0, s->owner[i] == s->rank ? s->x.cut : s->x.axis) == 1;
}

/* Bytes that what input i has of output o is staged in here; 0: in none. */
static size_t staged_box(const Span *s, const Tensor *in, const Tensor *out, int i, int o)
{
    const bool sent = s->owner[i] == s->rank, received = s->holder[o] == s->rank;
    const Shape box = box_of(in, out, s->x.cut);

    if (sent == received || s->owner[i] < 0 || s->holder[o] < 0 || is_stretch(s, &box, i))
        return 0;
    return aligned((size_t)shape_numel(&box) * s->element);
}

static size_t boxes_bytes(const Span *s, const Graph *g, const Node *n)
{
    size_t bytes = 0;

    for (int i = 0; i < s->n_in; i++)
        for (int o = 0; o < s->n_out; o++)
            bytes += staged_box(s, &(Tensor){ .shape = *in_value(g, n, i)->shape },
                                &(Tensor){ .shape = *value(g, n->out[o])->shape }, i, o);
    return bytes;
}

/* Bytes for what other processes send.  In a sum for all, this process's share of a tensor that it has no copy of takes
 * a slot of its own. */
static size_t staging_bytes(Span *s, const Graph *g, const Node *n)
{
    size_t bytes = 0;

    if (s->way == IN_BOXES)
        return boxes_bytes(s, g, n);
    if (s->way == IN_SHARES)
        return slot_bytes(s) * (size_t)(s->n_slot + (exchange_reduces(&s->x) && !has_outputs(s, s->rank)));
    for (int i = 0; s->way == WHOLE && i < s->n_in && has_outputs(s, s->rank); i++) {
        s->at[i] = bytes;
        if (s->owner[i] >= 0 && s->owner[i] != s->rank)
            bytes += aligned(value_bytes(g, n->in[i]));
    }
    return bytes;
}

static void collective_span_describe(Span *s, const Graph *g, const Node *n, const Site *site)
{
    for (int i = 0; i < n->n_in; i++)
        s->owner[i] = process_of(site, site->from[i]);
    for (int o = 0; o < n->n_out; o++)
        s->holder[o] = process_of(site, site->to[o]);
    for (int t = 0; t < s->x.tensors; t++) {
        int64_t at = 0;

        s->numel[t] = shape_numel(value(g, s->x.joined ? n->out[t * s->x.copies] : n->in[t * s->x.parts])->shape);
        for (int o = t * s->x.copies; s->x.split && o < (t + 1) * s->x.copies; o++) {
            s->start[o] = at;
            at += shape_numel(value(g, n->out[o])->shape);
        }
    }
    s->element = dtype_size(in_value(g, n, 0)->dtype);
    s->n_round = 1;
    for (int i = 0; i < s->x.parts; i++)
        s->n_own += s->owner[i] == s->rank;
    if (s->way == IN_SHARES || s->way == BY_LIBRARY)
        plan_rounds(s);
}

static Status collective_span_allocate(Span *s)
{
    const size_t tensors = (size_t)s->x.tensors, in = (size_t)s->n_in, out = (size_t)s->n_out, size = (size_t)s->size,
                 boxes = s->way == IN_BOXES ? in * out : 0,
                 most = boxes      ? boxes
                        : in > out ? in
                                   : out;

    s->owner = calloc(in, sizeof *s->owner);
    s->holder = calloc(out, sizeof *s->holder);
    s->numel = calloc(tensors, sizeof *s->numel);
    s->start = calloc(out, sizeof *s->start);
    s->at = calloc(in, sizeof *s->at);
    s->box = calloc(boxes, sizeof *s->box);
    s->in = calloc(in, sizeof *s->in);
    s->out = calloc(out, sizeof *s->out);
    s->part = calloc(in, sizeof *s->part);
    s->segment = calloc(s->way == BY_LIBRARY ? size * tensors : tensors, sizeof *s->segment);
    s->count = calloc(size, sizeof *s->count);
    s->send = calloc(size, sizeof *s->send);
    s->recv = calloc(size, sizeof *s->recv);
    s->pieces = calloc(2 * size * most, sizeof *s->pieces);
    if (!s->owner || !s->holder || !s->numel || !s->start || !s->at || (boxes && !s->box) || !s->in || !s->out ||
        !s->part || !s->segment || !s->count || !s->send || !s->recv || !s->pieces)
        return FAIL_NOMEM();
    for (int r = 0; r < s->size; r++) {
        s->send[r].piece = s->pieces + (size_t)r * most;
        s->recv[r].piece = s->pieces + (size_t)(s->size + r) * most;
    }
    return ST_OK;
}

Status span_create(Span **out, const Graph *g, const Node *n, const Site *site)
{
    Span *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->world = site->world;
    s->name = strdup(node_text(g, n));
    s->size = site->n_device / site->n_local;
    s->rank = site->first / site->n_local;
    s->n_in = n->n_in;
    s->n_out = n->n_out;
    s->x = exchange_of(n);
    s->way = way_of(g, n, &s->x, site);
    st = s->name ? collective_span_allocate(s) : FAIL_NOMEM();
    if (st) {
        span_free(s);
        return st;
    }
    collective_span_describe(s, g, n, site);
    (void)staging_bytes(s, g, n);
    *out = s;
    return ST_OK;
}

/* Bytes that world_sum_space gives for sums of the library. */
static size_t space_bytes(const Span *s)
{
    return s->way == BY_LIBRARY ? (size_t)s->size * (size_t)s->chunk * s->element : 0;
}

Status span_bytes(SpanBytes *out, const Graph *g, const Node *n, const Site *site)
{
    Span *s;

    *out = (SpanBytes){ 0 };
    if (!span_is_needed(n, site))
        return ST_OK;
    TRY(span_create(&s, g, n, site));
    *out = (SpanBytes){ staging_bytes(s, g, n), 2 * space_bytes(s) };
    span_free(s);
    return ST_OK;
}

void span_set_staging(Span *s, void *staging) { s->staging = staging; }

void span_free(Span *s)
{
    if (!s)
        return;
    free(s->owner);
    free(s->holder);
    free(s->numel);
    free(s->start);
    free(s->at);
    free(s->box);
    free(s->in);
    free(s->out);
    free(s->name);
    free(s->part);
    free(s->segment);
    free(s->count);
    free(s->send);
    free(s->recv);
    free(s->pieces);
    free(s);
}

/* ---- running ---- */

int span_rounds(const Span *s) { return s->n_round; }
bool span_in_segments(const Span *s) { return s->way == IN_SHARES || s->way == BY_LIBRARY; }
bool span_spreads(const Span *s) { return s->way == BY_LIBRARY || (s->way == IN_SHARES && exchange_reduces(&s->x)); }
const Tensor *span_in(const Span *s) { return s->in; }
Tensor *span_out(const Span *s) { return s->out; }

int span_parts(const Span *s, int n, bool *in_turn)
{
    *in_turn = s->way == BY_LIBRARY;
    return *in_turn ? s->n_own : n;
}

const Segment *span_segments(const Span *s, int *n)
{
    *n = s->n_segment;
    return s->segment;
}

static void add_piece(Parcel *p, void *data, size_t bytes)
{
    if (bytes)
        p->piece[p->n++] = (struct iovec){ data, bytes };
}

static void *element_of(const Span *s, const Tensor *t, int64_t at)
{
    return (char *)t->data + (size_t)at * s->element;
}

static void clear_parcels(Span *s)
{
    for (int r = 0; r < s->size; r++)
        s->send[r].n = s->recv[r].n = 0;
}

/* The first copy of tensor t that this process holds. */
static Tensor *held(const Span *s, int t)
{
    for (int d = 0; d < s->x.copies; d++)
        if (s->out[t * s->x.copies + d].data)
            return &s->out[t * s->x.copies + d];
    return NULL;
}

/* Finds the next elements that process r adds up in a round, where the shares of all tensors stand one behind the
 * other: the elements [from, to) of a tensor from *t on, with *before of the process's elements in front of them in the
 * round. */
static bool next_stretch(const Span *s, int r, int round, int *t, int64_t *seen, int64_t *from, int64_t *to,
                         int64_t *before)
{
    const int64_t begin = round * s->chunk, end = begin + s->chunk;

    for (; *t < s->x.tensors; ++*t) {
        int64_t share, stop, n, first, last;

        share_of(s, *t, r, &share, &stop);
        n = stop > share ? stop - share : 0;
        first = begin > *seen ? begin - *seen : 0;
        last = end - *seen < n ? end - *seen : n;
        if (first < last) {
            *from = share + first;
            *to = share + last;
            *before = *seen + first - begin;
        }
        *seen += n;
        if (first < last) {
            ++*t;
            return true;
        }
    }
    return false;
}

typedef void Stretch(Span *s, int r, int t, int64_t from, int64_t to, int64_t before);

static void each_stretch(Span *s, int r, int round, Stretch *act)
{
    int64_t seen = 0, from, to, before;

    for (int t = 0; next_stretch(s, r, round, &t, &seen, &from, &to, &before);)
        act(s, r, t - 1, from, to, before);
}

static void send_parts(Span *s, int r, int t, int64_t from, int64_t to, int64_t before)
{
    (void)before;
    for (int i = t * s->x.parts; i < (t + 1) * s->x.parts; i++)
        if (s->owner[i] == s->rank)
            add_piece(&s->send[r], element_of(s, &s->in[i], from), (size_t)(to - from) * s->element);
}

/* Makes a segment of this process's own share. */
static void make_segment(Span *s, int r, int t, int64_t from, int64_t to, int64_t before)
{
    Segment *g = &s->segment[s->n_segment++];
    int slot = 0;

    (void)r;
    *g = (Segment){ t, from, to, s->part + t * s->x.parts, from, NULL };
    for (int i = t * s->x.parts; i < (t + 1) * s->x.parts; i++) {
        bool remote = s->owner[i] >= 0 && s->owner[i] != s->rank;
        Tensor *part = &s->part[i];

        *part = (Tensor){ s->in[i].dtype, { 1, { to - from } }, NULL };
        part->data = remote ? s->staging + (size_t)slot++ * slot_bytes(s) + (size_t)before * s->element
                            : element_of(s, &s->in[i], from);
        if (remote)
            add_piece(&s->recv[s->owner[i]], part->data, (size_t)(to - from) * s->element);
    }
    if (exchange_reduces(&s->x) && !held(s, t))
        g->own = s->staging + (size_t)s->n_slot * slot_bytes(s) + (size_t)before * s->element;
}

static void gather_shares(Span *s, int round)
{
    s->n_segment = 0;
    for (int r = 0; r < s->size; r++)
        each_stretch(s, r, round, r == s->rank ? make_segment : send_parts);
}

/* Makes the segment of a sum of process r's share, behind the segments made before. */
static void make_sum(Span *s, int r, int t, int64_t from, int64_t to, int64_t before)
{
    Segment *g = &s->segment[s->n_segment], *last = s->n_segment ? g - 1 : NULL;
    char *at = last ? (char *)last->own + (size_t)(last->to - last->from) * s->element : s->sums;

    (void)before;
    *g = (Segment){ t, from, to, s->part + t * s->x.parts, 0, at };
    s->count[r] += (int)(to - from);
    s->n_segment++;
}

static Status gather_sums(Span *s, int round)
{
    void *sums;

    TRY(world_sum_space(&sums, s->world, space_bytes(s)));
    s->sums = sums;
    s->n_segment = 0;
    for (int t = 0; t < s->x.tensors; t++)
        for (int i = t * s->x.parts, k = i; i < (t + 1) * s->x.parts; i++)
            if (s->owner[i] == s->rank)
                s->part[k++] = s->in[i];
    for (int r = 0; r < s->size; r++) {
        s->count[r] = 0;
        s->first_mine = r == s->rank ? s->n_segment : s->first_mine;
        each_stretch(s, r, round, make_sum);
    }
    return ST_OK;
}

static void gather_in_place(Span *s)
{
    for (int t = 0; t < s->x.tensors; t++) {
        Tensor *to = held(s, t);
        int64_t at = 0;

        for (int i = t * s->x.parts; i < (t + 1) * s->x.parts; i++) {
            const size_t bytes = tensor_bytes(&s->in[i]);

            for (int r = 0; r < s->size; r++)
                if (r != s->rank && s->owner[i] == s->rank && has_outputs(s, r))
                    add_piece(&s->send[r], s->in[i].data, bytes);
            if (to && s->owner[i] >= 0 && s->owner[i] != s->rank) {
                s->in[i].data = element_of(s, to, at);
                add_piece(&s->recv[s->owner[i]], s->in[i].data, bytes);
            }
            at += tensor_numel(&s->in[i]);
        }
    }
}

static void gather_whole(Span *s)
{
    for (int i = 0; i < s->n_in; i++) {
        const size_t bytes = tensor_bytes(&s->in[i]);

        for (int r = 0; r < s->size; r++)
            if (r != s->rank && s->owner[i] == s->rank && has_outputs(s, r))
                add_piece(&s->send[r], s->in[i].data, bytes);
        if (s->owner[i] >= 0 && s->owner[i] != s->rank && has_outputs(s, s->rank)) {
            s->in[i].data = s->staging + s->at[i];
            add_piece(&s->recv[s->owner[i]], s->in[i].data, bytes);
        }
    }
}

void *span_box(const Span *s, int i, int o) { return s->box[(size_t)i * (size_t)s->n_out + (size_t)o]; }

/* Sends to process r, or gets from it, what input i has of output o; moves `*stage` on. */
static void add_box(Span *s, int i, int o, int64_t to_at, int64_t from_at, char **stage)
{
    const Tensor *in = &s->in[i], *out = &s->out[o];
    const bool sends = s->owner[i] == s->rank;
    const Shape box = box_of(in, out, s->x.cut);
    const size_t staged = staged_box(s, in, out, i, o);
    Tensor packed = { in->dtype, box, *stage };

    if (!staged)
        packed.data = sends ? element_of(s, in, from_at * shape_count(&box, s->x.cut + 1, box.rank))
                            : element_of(s, out, to_at * shape_count(&box, s->x.axis + 1, box.rank));
    else if (sends)
        box_copy(&box, &packed, s->x.axis, 0, in, s->x.cut, from_at);
    else
        s->box[(size_t)i * (size_t)s->n_out + (size_t)o] = packed.data;
    add_piece(sends ? &s->send[s->holder[o]] : &s->recv[s->owner[i]], packed.data, tensor_bytes(&packed));
    *stage += staged;
}

static void gather_boxes(Span *s)
{
    char *stage = s->staging;
    int64_t from_at = 0;

    for (int o = 0; o < s->n_out; from_at += s->out[o++].shape.dim[s->x.cut]) {
        int64_t to_at = 0;

        for (int i = 0; i < s->n_in; to_at += s->in[i++].shape.dim[s->x.axis])
            if (s->owner[i] >= 0 && s->holder[o] >= 0 && (s->owner[i] == s->rank) != (s->holder[o] == s->rank))
                add_box(s, i, o, to_at, from_at, &stage);
    }
}

Status span_gather(Span *s, int round, const Tensor *in, const Tensor *out, const atomic_bool *cancelled)
{
    memcpy(s->in, in, (size_t)s->n_in * sizeof *in);
    memcpy(s->out, out, (size_t)s->n_out * sizeof *out);
    if (s->way == BY_LIBRARY)
        return gather_sums(s, round);
    world_set_node(s->world, s->name);
    clear_parcels(s);
    if (s->way == IN_SHARES)
        gather_shares(s, round);
    else if (s->way == IN_PLACE)
        gather_in_place(s);
    else if (s->way == IN_BOXES)
        gather_boxes(s);
    else
        gather_whole(s);
    return world_exchange(s->world, s->send, s->recv, cancelled);
}

/* ---- sums for all ---- */

static void send_sums(Span *s)
{
    for (int k = 0; k < s->n_segment; k++) {
        const Segment *g = &s->segment[k];

        for (int r = 0; r < s->size; r++)
            if (r != s->rank && has_outputs(s, r))
                add_piece(&s->send[r], g->own ? g->own : element_of(s, held(s, g->tensor), g->from),
                          (size_t)(g->to - g->from) * s->element);
    }
}

static void receive_sums(Span *s, int r, int t, int64_t from, int64_t to, int64_t before)
{
    (void)before;
    if (held(s, t))
        add_piece(&s->recv[r], element_of(s, held(s, t), from), (size_t)(to - from) * s->element);
}

/* Copies sums that have arrived in the first copy of a tensor to its other copies in this process. */
static void copy_sums(Span *s, int r, int t, int64_t from, int64_t to, int64_t before)
{
    const Tensor *first = held(s, t);

    (void)r, (void)before;
    for (int d = 0; first && d < s->x.copies; d++) {
        const Tensor *copy = &s->out[t * s->x.copies + d];

        if (copy->data && copy->data != first->data)
            memcpy(element_of(s, copy, from), element_of(s, first, from), (size_t)(to - from) * s->element);
    }
}

/* A segment's sums to the copies here, or to the pieces. */
static void place_sums(Span *s, const Segment *g, const char *sums)
{
    for (int o = g->tensor * s->x.copies; o < (g->tensor + 1) * s->x.copies; o++) {
        const Tensor *out = &s->out[o];
        const int64_t begin = s->start[o], end = begin + tensor_numel(out), first = begin > g->from ? begin : g->from,
                      last = end < g->to ? end : g->to;

        if (out->data && first < last)
            memcpy(element_of(s, out, first - begin), sums + (size_t)(first - g->from) * s->element,
                   (size_t)(last - first) * s->element);
    }
}

static Status add_by_library(Span *s, const atomic_bool *cancelled)
{
    const bool all = exchange_reduces(&s->x);
    const WorldNumber type = s->element == sizeof(double) ? WORLD_FLOAT64 : WORLD_FLOAT32;
    const void *sums;
    int64_t placed = 0;

    TRY(world_add(&sums, s->world, type, s->count, all, cancelled));
    for (int k = all ? 0 : s->first_mine; k < s->n_segment && (all || placed < s->count[s->rank]); k++) {
        const Segment *g = &s->segment[k];

        place_sums(s, g, (const char *)sums + (size_t)placed * s->element);
        placed += g->to - g->from;
    }
    return ST_OK;
}

Status span_spread(Span *s, int round, const atomic_bool *cancelled)
{
    world_set_node(s->world, s->name);
    if (s->way == BY_LIBRARY)
        return add_by_library(s, cancelled);
    clear_parcels(s);
    send_sums(s);
    for (int r = 0; r < s->size; r++)
        if (r != s->rank)
            each_stretch(s, r, round, receive_sums);
    TRY(world_exchange(s->world, s->send, s->recv, cancelled));
    for (int r = 0; r < s->size; r++)
        if (r != s->rank)
            each_stretch(s, r, round, copy_sums);
    return ST_OK;
}
