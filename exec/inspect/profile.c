/* Sums the events of training steps by operator and by layer.
 *
 * Events stay in the trace until their step has ended: only then it is known whether the step counts.  It does not if
 * one of its programs ran for the first or the second time, because the program was planned then, touched its memory
 * for the first time, or was captured.
 *
 * The devices of a collective meet in it.  What passes between a device's arrival and that of the last one is waiting,
 * the rest is communication. */
#include "exec/inspect/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/measure.h"
#include "exec/inspect/picture_tree.h"
#include "exec/inspect/profile_sums.h"
#include "graph/base/heap_array.h"
#include "graph/ir/op.h"
#include "passes/report.h"

enum { MOST_EVENTS = 1 << 20, COLD_RUNS = 2 };
enum { ROUNDS = 2 }; /* of a measurement of peaks, because other programs may disturb one */
/* On accelerators: steps that are timed, and those behind them that are passed over: both slots are captured anew. */
enum { TIMED_STEPS = 20, SETTLING_STEPS = 4 };

const DType profile_type[PROFILE_TYPES] = { DT_FLOAT32, DT_FLOAT64, DT_FLOAT16, DT_BFLOAT16 };

/* Where a node's times are added. */
typedef struct {
    ProfileRow *op, *layer;
    double flops;
    int type;        /* in profile_type */
    uint64_t latest; /* of a collective: when the last device came, in nanoseconds; 0: none yet */
} NodeSums;

struct ProfileGraph {
    const Graph *g;
    Arena *arena;
    NodeSums *sums; /* by node index; op NULL: not used yet */
    const char **path;
    const uint8_t *phase;
};

/* ---- life ---- */

Status profile_create(Profile **out, bool accelerators)
{
    Profile *p = calloc(1, sizeof *p);
    Status st = p ? trace_create(&p->events, MOST_EVENTS) : FAIL_NOMEM();

    if (!st && !(p->arena = arena_create()))
        st = FAIL_NOMEM();
    if (st) {
        profile_free(p);
        return st;
    }
    p->accelerators = accelerators;
    *out = p;
    return ST_OK;
}

static void forget_graphs(Profile *p)
{
    for (size_t i = 0; i < p->n_graph; i++)
        arena_free(p->graph[i].arena);
    p->n_graph = 0;
}

void profile_free(Profile *p)
{
    if (!p)
        return;
    forget_graphs(p);
    free(p->graph);
    free(p->run_end);
    trace_free(p->events);
    arena_free(p->arena);
    free(p);
}

Trace *profile_trace(Profile *p) { return p->over ? NULL : p->events; }

/* ---- rows ---- */

static bool is_row(const void *item, const void *key) { return !strcmp(((const ProfileRow *)item)->name, key); }

static Status find_row(ProfileRow **out, Profile *p, ProfileRows *rows, const char *name)
{
    const uint64_t hash = hash_text(0, name);
    ProfileRow *r;

    if (!hash_table_reserve(&rows->by_name, p->arena))
        return FAIL_NOMEM();
    if ((*out = (ProfileRow *)(uintptr_t)hash_table_find(&rows->by_name, hash, is_row, name)))
        return ST_OK;
    if (!(r = ARENA_NEW(p->arena, ProfileRow, 1)) || !(r->name = arena_strdup(p->arena, name)))
        return FAIL_NOMEM();
    r->next = rows->first;
    rows->first = *out = r;
    rows->n++;
    hash_table_add(&rows->by_name, hash, r);
    return ST_OK;
}

/* The layer of a node: its path; without one the node that it stands for, "relu1" of "gradient of relu1"; where it
 * belongs to none, what it does. */
static const char *layer_of(const ProfileGraph *x, const Node *n, Arena *a)
{
    const char *name = n->name ? n->name : "", *copy;
    const size_t own = strlen(n->op->name);

    if (*x->path[n->index])
        return x->path[n->index];
    if (n->op->flags & OPF_COLLECTIVE)
        return "(collectives)";
    if (x->phase[n->index] == PHASE_UPDATE)
        return "(optimizer)";
    for (const char *next; (next = strstr(name, " of "));)
        name = next + 4;
    name += *name == '/' && name[1];
    if (!*name || (!strncmp(name, n->op->name, own) && name[own + strspn(name + own, "_0123456789")] == '\0'))
        return "(other)"; /* a name made from the operator's, "Expand_12" */
    copy = strrchr(name, '@');
    return copy && copy > name ? arena_printf(a, "%.*s", (int)(copy - name), name) : name;
}

static int type_of(const Graph *g, const Node *n)
{
    const DType type = n->n_in && has_value(n->in[0]) ? in_value(g, n, 0)->dtype : DT_FLOAT32;

    for (int i = 0; i < PROFILE_TYPES; i++)
        if (profile_type[i] == type)
            return i;
    return 0;
}

static Status fill_sums(Profile *p, const ProfileGraph *x, const Node *n)
{
    NodeSums *t = &x->sums[n->index];
    const char *layer = layer_of(x, n, x->arena);
    ProfileRow *op;

    TRY(layer ? find_row(&t->layer, p, &p->layers, layer) : FAIL_NOMEM());
    TRY(find_row(&op, p, &p->operators, n->op->name));
    op->collective = n->op->flags & OPF_COLLECTIVE;
    t->flops = (double)node_flops(x->g, n);
    t->type = type_of(x->g, n);
    t->op = op;
    return ST_OK;
}

/* Names the layers of a graph that runs for the first time. */
static Status add_graph(ProfileGraph **out, Profile *p, const Graph *g)
{
    ProfileGraph x = { .g = g, .arena = arena_create() }, *grown;
    Picture picture;
    Place *place;
    int n_place;
    Status st = x.arena ? picture_lanes(&picture, g, x.arena) : FAIL_NOMEM();

    if (!st)
        st = picture_places(&place, &n_place, &picture, x.arena);
    if (!st)
        st = picture_paths(&x.path, &picture, place, n_place, x.arena);
    if (!st && !(x.sums = ARENA_NEW(x.arena, NodeSums, g->n_node)))
        st = FAIL_NOMEM();
    if (!st && !(grown = heap_reserve(p->graph, sizeof *p->graph, p->n_graph + 1, &p->graph_room)))
        st = FAIL_NOMEM();
    if (st) {
        arena_free(x.arena);
        return st;
    }
    x.phase = picture.phase;
    p->graph = grown;
    *(*out = &p->graph[p->n_graph++]) = x;
    return ST_OK;
}

static Status find_graph(ProfileGraph **out, Profile *p, const Graph *g)
{
    for (size_t i = p->n_graph; i-- > 0;)
        if (p->graph[i].g == g) {
            *out = &p->graph[i];
            return ST_OK;
        }
    return add_graph(out, p, g);
}

/* ---- steps ---- */

static void add_event(Profile *p, const ProfileGraph *x, const TraceEvent *e)
{
    NodeSums *t = &x->sums[e->node->index];
    const double took = (double)(e->end - e->start) * 1e-9,
                 waited = t->latest > e->start ? fmin(took, (double)(t->latest - e->start) * 1e-9) : 0;
    ProfileRow *const row[] = { t->op, t->layer };

    for (int i = 0; i < 2; i++) {
        row[i]->calls++;
        row[i]->bytes += (double)e->bytes;
        row[i]->flops[t->type] += t->flops;
        row[i]->seconds += took - waited;
        row[i]->waited += waited;
    }
    p->phase[x->phase[e->node->index]] += took;
    p->device[e->device] = true;
}

/* Adds the events [from, to), which are one run of a program. */
static Status add_run(Profile *p, uint32_t from, uint32_t to)
{
    ProfileGraph *x = NULL;

    if (from == to)
        return ST_OK;
    TRY(find_graph(&x, p, trace_at(p->events, from)->graph));
    for (uint32_t i = from; i < to; i++) {
        const TraceEvent *e = trace_at(p->events, i);
        NodeSums *t = &x->sums[e->node->index];

        if (!t->op)
            TRY(fill_sums(p, x, e->node));
        if (t->op->collective && e->start > t->latest)
            t->latest = e->start;
    }
    for (uint32_t i = from; i < to; i++)
        add_event(p, x, trace_at(p->events, i));
    for (uint32_t i = from; i < to; i++)
        x->sums[trace_at(p->events, i)->node->index].latest = 0;
    return ST_OK;
}

void profile_begin_run(Profile *p) { trace_cut(p->events, p->kept); }

Status profile_take(Profile *p, const ProfileRun *run)
{
    const uint32_t n = trace_count(p->events);
    uint32_t *grown;

    if (run->also)
        for (uint32_t i = p->kept; i < n; i++)
            trace_add(run->also, trace_at(p->events, i));
    if (run->forgotten != p->forgotten) { /* events of this step may be of graphs that are gone */
        forget_graphs(p);
        p->forgotten = run->forgotten;
        p->cold |= p->begun;
    }
    if (!run->trains) {
        trace_cut(p->events, p->kept);
        return ST_OK;
    }
    if (!(grown = heap_reserve(p->run_end, sizeof *grown, p->n_run + 1, &p->run_room)))
        return FAIL_NOMEM();
    p->run_end = grown;
    p->run_end[p->n_run++] = p->kept = n;
    p->cold |= run->runs <= COLD_RUNS;
    p->ran += run->seconds;
    p->begun = true;
    return ST_OK;
}

static void add_step(ProfileSteps *s, const Profile *p, double seconds, double data)
{
    s->steps++;
    s->seconds += seconds;
    s->data += data;
    s->ran += p->ran;
}

static void begin_step(Profile *p)
{
    trace_cut(p->events, 0);
    p->kept = 0;
    p->n_run = 0;
    p->cold = p->begun = false;
    p->ran = 0;
}

Status profile_end_step(Profile *p, double seconds, double data)
{
    const bool counts = p->begun && !p->cold && !isnan(seconds), full = trace_is_full(p->events);

    p->seen++;
    p->full += full;
    if (p->over && p->settle > 0)
        p->settle--;
    else if (p->over && counts)
        add_step(&p->free, p, seconds, data);
    else if (counts && !full) {
        for (size_t i = 0; i < p->n_run; i++)
            TRY(add_run(p, i ? p->run_end[i - 1] : 0, p->run_end[i]));
        add_step(&p->timed, p, seconds, data);
    }
    if (p->accelerators && !p->over && p->timed.steps == TIMED_STEPS) {
        p->over = true;
        p->settle = SETTLING_STEPS;
    }
    begin_step(p);
    return ST_OK;
}

/* ---- peaks ---- */

/* FLOPs of that type. */
static double flops_of(const Profile *p, int type)
{
    double sum = 0;

    for (const ProfileRow *r = p->operators.first; r; r = r->next)
        sum += r->flops[type];
    return sum;
}

Status profile_measure(Profile *p, const DeviceSpec *d)
{
    double all = 0;

    if (p->measured || !p->timed.steps)
        return ST_OK;
    for (int i = 0; i < ROUNDS; i++) {
        double bytes, flops;

        TRY(measure_bytes(&bytes, d));
        TRY(measure_flops(&flops, d, profile_type[0]));
        p->peak_bytes = fmax(p->peak_bytes, bytes);
        p->peak_flops[0] = fmax(p->peak_flops[0], flops);
    }
    for (int i = 0; i < PROFILE_TYPES; i++)
        all += flops_of(p, i);
    for (int i = 1; i < PROFILE_TYPES; i++)
        if (flops_of(p, i) > 0.01 * all && measure_flops(&p->peak_flops[i], d, profile_type[i]))
            p->peak_flops[i] = 0; /* the device has no kernel for it */
    p->peaks_of = d->cuda ? arena_printf(p->arena, "cuda:%d", d->index)
                          : arena_printf(p->arena, "cpu, %d thread%s", d->threads, d->threads == 1 ? "" : "s");
    p->measured = p->peaks_of;
    return p->peaks_of ? ST_OK : FAIL_NOMEM();
}
