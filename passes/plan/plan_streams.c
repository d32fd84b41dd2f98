/* plan_streams: divides each device's nodes among its streams and orders the streams by events.
 *
 * Collectives between devices run on the communication stream, so that buckets are reduced during the backward pass;
 * transfers to and from the host, and the host's computation, on the copy stream; all others on the compute stream. A
 * device's streams share its arena, where one buffer follows another in the same bytes: so the order is derived from
 * the bytes, not from the graph's edges.  Two steps conflict when one writes bytes that the other reads or writes, be
 * they values, views of them, state or scratch; the later in the order of execution must then begin after the earlier
 * ended. Devices share nothing, so each device is planned separately.
 *
 * Each step has a vector clock: how many steps of every stream have certainly ended when it begins.  A step waits for
 * the last conflicting step of another stream unless its clock or another wait covers that step, so no wait can be left
 * out. */
#include "passes/plan/plan_streams.h"

#include <stdlib.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "passes/plan/last_touch.h"

typedef struct {
    MemRef begin, end;
    uint32_t from, to; /* their numbers among all places */
    bool writes;
} Access;

typedef struct {
    const Graph *g;
    const MemoryPlan *plan;
    const size_t *scratch;
    int n_device, device;
    Arena *keep, *a; /* for the plan; for planning alone */
    StreamDevice *out;
    Access *access; /* a step's are [first[step], first[step + 1]) */
    uint32_t *first;
    int *line[N_STREAMS]; /* [position] -> step */
    int length[N_STREAMS];
    int *position;            /* [step] on its stream */
    int (*before)[N_STREAMS]; /* [step] its clock: how many steps of every stream have ended when it begins */
    LastTouch written[N_STREAMS], touched[N_STREAMS]; /* by positions on the stream */
} Lanes;

/* ---- a device's part in a node ---- */

static bool in_device_memory(const MemRef *r) { return r->kind == MEM_ARENA || r->kind == MEM_STATE; }

static bool on_device(const Lanes *l, const MemRef *r)
{
    return in_device_memory(r) && r->device % l->n_device == l->device;
}

bool stream_is_view(const MemoryPlan *plan, const Node *n)
{
    const Exchange e = exchange_of(n);

    if (n->op->flags & OPF_VIEW && n->n_out == 1)
        return true;
    if (!exchange_distributes(&e))
        return false;
    for (int o = 0; o < n->n_out; o++)
        if (in_device_memory(&plan->value[n->out[o].i]))
            return false;
    return true;
}

/* How many devices hold inputs or outputs of a collective. */
static int plan_streams_count_members(const Lanes *l, const Node *n)
{
    int first = -1;

    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const MemRef *r = &l->plan->value[(i < n->n_in ? n->in[i] : n->out[i - n->n_in]).i];

        if (!in_device_memory(r))
            continue;
        if (first >= 0 && first != r->device)
            return 2;
        first = r->device;
    }
    return first >= 0;
}

static bool touches(const Lanes *l, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (on_device(l, &l->plan->value[n->in[i].i]))
            return true;
    for (int o = 0; o < n->n_out; o++)
        if (on_device(l, &l->plan->value[n->out[o].i]))
            return true;
    return false;
}

/* Does the device take part in the node, and on which stream? */
static bool takes_part(const Lanes *l, const Node *n, StreamStep *step)
{
    int device = n->device < 0 ? 0 : n->device;
    Exchange e;

    *step = (StreamStep){ .node = n->index, .stream = STREAM_COMPUTE, .event = -1 };
    if (stream_is_view(l->plan, n))
        return false;
    if (!(n->op->flags & OPF_COLLECTIVE)) {
        step->stream = device >= l->n_device || n->op->flags & OPF_TRANSFER ? STREAM_COPY : STREAM_COMPUTE;
        return device % l->n_device == l->device;
    }
    e = exchange_of(n);
    if (n->n_in && !in_device_memory(&l->plan->value[n->in[0].i]) && exchange_distributes(&e)) {
        step->stream = STREAM_COPY;
        return touches(l, n);
    }
    if (plan_streams_count_members(l, n) < 2)
        return touches(l, n);
    step->stream = STREAM_COMM;
    step->collective = true;
    return true;
}

/* ---- accesses ---- */

static uint32_t add_access(Lanes *l, uint32_t n, const MemRef *at, bool writes)
{
    Access *x = &l->access[n];

    if (!on_device(l, at) || !at->bytes)
        return n;
    *x = (Access){ .begin = *at, .end = *at, .writes = writes };
    x->end.offset += at->bytes;
    return n + 1;
}

static uint32_t add_accesses(Lanes *l, uint32_t at, const Node *n)
{
    size_t scratch = l->scratch && !(n->op->flags & OPF_COLLECTIVE) ? l->scratch[n->index] : 0;

    for (int i = 0; i < n->n_in; i++)
        at = add_access(l, at, &l->plan->value[n->in[i].i], false);
    for (int o = 0; o < n->n_out; o++)
        at = add_access(l, at, &l->plan->value[n->out[o].i], true);
    return add_access(
        l, at, &(MemRef){ MEM_ARENA, n->device < 0 ? 0 : n->device, NO_VALUE, l->plan->scratch[n->index], scratch },
        true);
}

/* Orders places: each state is a region, and so is an arena. */
static int compare_places(const void *a, const void *b)
{
    const MemRef *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->kind == MEM_STATE && x->root.i != y->root.i)
        return x->root.i < y->root.i ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static uint32_t number_of(const MemRef *at, const MemRef *list, uint32_t n)
{
    return (uint32_t)((const MemRef *)bsearch(at, list, n, sizeof *list, compare_places) - list);
}

/* Numbers all places along one line; no access begins or ends between two neighbours. */
static Status number_places(Lanes *l, uint32_t n_access)
{
    MemRef *list = ARENA_NEW(l->a, MemRef, 2 * (size_t)n_access);
    uint32_t n = 0;

    if (!list)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < n_access; i++) {
        list[n++] = l->access[i].begin;
        list[n++] = l->access[i].end;
    }
    qsort(list, n, sizeof *list, compare_places);
    n = 0;
    for (uint32_t i = 0; i < 2 * n_access; i++)
        if (!n || compare_places(&list[n - 1], &list[i]))
            list[n++] = list[i];
    for (uint32_t i = 0; i < n_access; i++) {
        l->access[i].from = number_of(&l->access[i].begin, list, n);
        l->access[i].to = number_of(&l->access[i].end, list, n);
    }
    for (int t = 0; t < N_STREAMS; t++) {
        TRY(last_touch_create(&l->written[t], n, l->a));
        TRY(last_touch_create(&l->touched[t], n, l->a));
    }
    return ST_OK;
}

/* ---- clocks ---- */

/* The number of steps of stream t that have ended when `step` has. */
static int ended_by(const Lanes *l, int step, int t)
{
    return t == (int)l->out->step[step].stream ? l->position[step] + 1 : l->before[step][t];
}

static int event_of(StreamDevice *d, int step)
{
    if (d->step[step].event < 0)
        d->step[step].event = d->n_event++;
    return d->step[step].event;
}

/* The last step of stream t that conflicts with `step` and that its clock does not cover; -1: none. */
static int last_conflict(const Lanes *l, int step, StreamKind t)
{
    int last = -1;

    for (uint32_t i = l->first[step]; i < l->first[step + 1]; i++) {
        const Access *x = &l->access[i];
        const int q = last_touch_of(x->writes ? &l->touched[t] : &l->written[t], x->from, x->to);

        last = q > last ? q : last;
    }
    return last >= l->before[step][t] ? l->line[t][last] : -1;
}

/* Appends the step to its stream. */
static void plan_streams_append(Lanes *l, int step)
{
    const StreamKind t = l->out->step[step].stream;
    const int q = l->length[t]++;

    l->position[step] = q;
    l->line[t][q] = step;
    for (uint32_t i = l->first[step]; i < l->first[step + 1]; i++) {
        const Access *x = &l->access[i];

        last_touch_set(&l->touched[t], x->from, x->to, q);
        if (x->writes)
            last_touch_set(&l->written[t], x->from, x->to, q);
    }
}

/* Adds the waits before a step, which is the next of its stream. */
static void order_step(Lanes *l, int step)
{
    StreamStep *s = &l->out->step[step];
    const int previous = l->length[s->stream] ? l->line[s->stream][l->length[s->stream] - 1] : -1;
    int last[N_STREAMS], *clock = l->before[step];

    for (int t = 0; t < N_STREAMS; t++)
        clock[t] = previous < 0 ? 0 : ended_by(l, previous, t);
    for (int t = 0; t < N_STREAMS; t++)
        last[t] = t == (int)s->stream ? -1 : last_conflict(l, step, (StreamKind)t);
    for (int t = 0; t < N_STREAMS; t++)
        for (int u = 0; u < N_STREAMS && last[t] >= 0; u++)
            if (u != t && last[u] >= 0 && ended_by(l, last[u], t) > l->position[last[t]])
                last[t] = -1;
    for (int t = 0; t < N_STREAMS; t++) {
        if (last[t] < 0)
            continue;
        for (int u = 0; u < N_STREAMS; u++)
            clock[u] = ended_by(l, last[t], u) > clock[u] ? ended_by(l, last[t], u) : clock[u];
        s->wait[s->n_wait++] = event_of(l->out, last[t]);
    }
    plan_streams_append(l, step);
}

/* Finds, by the compute stream's last clock, the other streams that it must still wait for. */
static void join_streams(Lanes *l)
{
    const int n = l->length[STREAM_COMPUTE];

    for (int t = 0; t < N_STREAMS; t++) {
        const int known = n ? ended_by(l, l->line[STREAM_COMPUTE][n - 1], t) : 0;

        l->out->uses[t] = l->length[t] > 0;
        l->out->join[t] =
            t != STREAM_COMPUTE && l->length[t] > known ? event_of(l->out, l->line[t][l->length[t] - 1]) : -1;
    }
}

/* ---- entry ---- */

static Status list_steps(Lanes *l)
{
    size_t most = 1;
    uint32_t n_access = 0;

    FOR_NODES(l->g, n)
        most += (size_t)(n->n_in + n->n_out + 1);
    l->out->step = ARENA_NEW(l->keep, StreamStep, l->g->n_node);
    l->access = ARENA_NEW(l->a, Access, most);
    l->first = ARENA_NEW(l->a, uint32_t, l->g->n_node + 1);
    if (!l->out->step || !l->access || !l->first)
        return FAIL_NOMEM();
    FOR_NODES(l->g, n) {
        if (!takes_part(l, n, &l->out->step[l->out->n_step]))
            continue;
        n_access = add_accesses(l, n_access, n);
        l->first[++l->out->n_step] = n_access;
    }
    return number_places(l, n_access);
}

static Status plan_device(Lanes *l)
{
    TRY(list_steps(l));
    for (int s = 0; s < N_STREAMS; s++)
        if (!(l->line[s] = ARENA_NEW(l->a, int, l->out->n_step)))
            return FAIL_NOMEM();
    l->position = ARENA_NEW(l->a, int, l->out->n_step);
    l->before = arena_array(l->a, sizeof *l->before, (size_t)l->out->n_step);
    if (!l->position || !l->before)
        return FAIL_NOMEM();
    for (int i = 0; i < l->out->n_step; i++)
        order_step(l, i);
    join_streams(l);
    return ST_OK;
}

Status plan_streams(StreamPlan **out, const Graph *g, const MemoryPlan *plan, const size_t *scratch, int n_device,
                    Arena *arena)
{
    StreamPlan *p = ARENA_NEW(arena, StreamPlan, 1);

    if (!p || !(p->device = ARENA_NEW(arena, StreamDevice, n_device)))
        return FAIL_NOMEM();
    p->n_device = n_device;
    for (int d = 0; d < n_device; d++) {
        Lanes l = { .g = g,
                    .plan = plan,
                    .scratch = scratch,
                    .n_device = n_device,
                    .device = d,
                    .keep = arena,
                    .a = arena_create_beside(arena),
                    .out = &p->device[d] };
        Status st = l.a ? plan_device(&l) : FAIL_NOMEM();

        arena_free(l.a);
        TRY(st);
    }
    *out = p;
    return ST_OK;
}
