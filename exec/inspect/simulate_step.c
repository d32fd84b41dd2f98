/* A walk over the scheduled graph: each device computes its nodes in order, and all meet in collectives.
 *
 * A node takes the longer of what its FLOPs and its bytes take (a roofline), by the rates of its operator where those
 * are known.  A collective begins when the last device has come to it and the one before has ended; where collectives
 * overlap, when its inputs are there, and only who reads its outputs waits.  So a bucket of gradients leaves when its
 * last gradient is made, as exec/gpu does it; CPU devices wait in place (exec/run/collective.c).  Of accelerators whose
 * collectives do not overlap a step takes the sum of both.  With OVERLAP_SUMS the first of the two phases of a sum for
 * all overlaps, and the second, of all sums, follows when all is computed and summed.
 *
 * The graph may show only some of the devices (BuildOptions.world): how many there are is asked of `s`. */
#include <math.h>
#include <string.h>

#include "exec/inspect/simulate.h"
#include "exec/run/collective_span.h"
#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"
#include "passes/plan/plan_memory.h"
#include "passes/report.h"

/* Seconds that Linux leaves a thread its core for while others want it: a tick, of which there are 250 a second. */
static const double SLICE = 0.004;
enum { CROWD = 32 }; /* devices of a node whose cores are thought of one by one */

typedef struct {
    double sent, received, kept; /* bytes, for the collective at hand */
    double staging, all;         /* of all collectives: kept, sent */
} Traffic;

typedef struct {
    const Cluster *c;
    const Graph *g;
    Simulated *s;
    int n_shown;
    double n, per_node, nodes; /* devices; of the fullest node; nodes with devices */
    bool whole;                /* of the collective at hand: small sums' parts are sent whole */
    double late;               /* seconds that all wait for the latest where they meet */
    double rounds;             /* devices of the core that has most, expected */
    double share, slowdown;    /* by how much a device is slower for those beside it, on its cores and otherwise */
    double bandwidth, slower;
    bool beside;   /* collectives have a stream of their own */
    double *ready; /* [value] seconds after the step's beginning */
    double *clock; /* [shown] */
    double *busy, *flops;
    Traffic *traffic; /* [n] */
    double wire;      /* when the last collective ends */
    double after;     /* OVERLAP_SUMS: seconds of what is given when all is computed */
    Report *report;   /* that is told; NULL: none */
    const uint8_t *phase;
    double (*busy_in)[N_PHASES]; /* [shown] */
    int n_collective;            /* seen so far */
} Walk;

/* ---- nodes ---- */

static double bytes_of(const Graph *g, ValueId v) { return has_value(v) ? (double)value_bytes(g, v) : 0; }

double simulate_bytes(const Graph *g, const Node *n)
{
    double sum = 0;

    for (int i = 0; i < n->n_in; i++)
        sum += bytes_of(g, n->in[i]);
    for (int i = 0; i < n->n_out; i++)
        sum += bytes_of(g, n->out[i]);
    return sum;
}

bool simulate_is_free(const Node *n)
{
    return n->op->flags & OPF_COLLECTIVE || (n->op->flags & OPF_VIEW && n->n_out == 1);
}

static const OpRate *find_rate(const Cluster *c, const Node *n)
{
    for (int i = 0; i < c->n_rate; i++)
        if (!strcmp(c->rate[i].op, n->op->name))
            return &c->rate[i];
    return NULL;
}

/* FLOPs a second by the type of what is multiplied. */
static double peak(const Walk *w, const Node *n)
{
    bool half = n->n_in && has_value(n->in[0]) && dtype_size(in_value(w->g, n, 0)->dtype) == 2;

    return half && w->c->flops_half > 0 ? w->c->flops_half : w->c->flops;
}

/* How much longer a node takes beside others: what devices of a node share are units that only products keep busy, so
 * one that is slower than they are is slowed by as much less. */
static double slowdown_of(const Walk *w, const Node *n, const OpRate *rate)
{
    const double used = !rate ? 1 : fmin(1, rate->flops / peak(w, n));

    return w->share * (1 + (w->slowdown - 1) * used);
}

static double node_seconds(const Walk *w, const Node *n)
{
    const OpRate *rate = find_rate(w->c, n);
    double flops = (double)node_flops(w->g, n), bytes = simulate_bytes(w->g, n), t;

    if (simulate_is_free(n))
        return 0;
    if (!rate)
        t = flops / peak(w, n);
    else
        t = rate->flops > 0 ? flops / rate->flops : bytes / rate->bytes;
    return (fmax(t * slowdown_of(w, n, rate), bytes / w->bandwidth) + w->c->launch) * w->slower;
}

/* ---- collectives ---- */

static bool of_caller(const Graph *g, ValueId v)
{
    const Value *x = value(g, v);

    return x->kind == V_INPUT || x->kind == V_CONST;
}

static double whole_of(const Walk *w, const ValueId *v, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += bytes_of(w->g, v[i]);
    return sum;
}

/* Bytes of the piece that device d gets of tensor t, which is `whole` bytes. */
static double piece_bytes(const Walk *w, const Exchange *e, const Node *n, int t, int d, double whole)
{
    const Shape *s = in_value(w->g, n, t * e->parts)->shape;
    int count;
    const int64_t *counts = node_ints(n, "counts", &count);
    int at = count > e->copies ? t * e->copies + d : d;

    return at < count && s->dim[e->cut] ? whole / (double)s->dim[e->cut] * (double)counts[at] : 0;
}

/* Pieces along one axis that become pieces along another: each device sends what it has of the others'. */
static void count_turned(Walk *w, const Exchange *e, const Node *n)
{
    const double whole = whole_of(w, n->in, e->parts);
    const bool packs = shape_count(in_value(w->g, n, 0)->shape, 0, e->cut) != 1,
               unpacks = shape_count(value(w->g, n->out[0])->shape, 0, e->axis) != 1;

    for (int d = 0; d < (int)w->n; d++) {
        Traffic *x = &w->traffic[d];
        const double had = e->parts == (int)w->n ? bytes_of(w->g, n->in[d]) : whole / w->n,
                     got = e->copies == (int)w->n ? piece_bytes(w, e, n, 0, d, whole) : whole / w->n,
                     both = whole > 0 ? had * got / whole : 0;

        x->sent += had - both;
        x->received += got - both;
        x->kept += (packs ? had - both : 0) + (unpacks ? got - both : 0);
    }
}

/* Of tensor t: what each device sends to all others and receives from them, when it is sent where it is needed and no
 * farther, and what it keeps of that until it is used.  Lists of pieces have one of each device, shown or not. */
static void count_tensor(Walk *w, const Exchange *e, const Node *n, int t)
{
    const ValueId *in = n->in + t * e->parts;
    const double others = w->n - 1, one = bytes_of(w->g, in[0]), whole = whole_of(w, in, e->parts);
    const bool to_one = e->joined && e->copies == 1 && w->n_shown > 1;

    for (int d = 0; d < (int)w->n; d++) {
        Traffic *x = &w->traffic[d];
        double own, sent, received;

        if (w->whole) {
            x->kept += sent = received = one * others;
        } else if (exchange_reduces(e)) {
            sent = received = 2 * one * others / w->n;
            x->kept += one * others / w->n;
        } else if (e->sum) {
            own = piece_bytes(w, e, n, t, d, one);
            sent = one - own;
            x->kept += received = own * others;
        } else if (e->joined) {
            own = e->parts == (int)w->n ? bytes_of(w->g, in[d]) : whole / w->n;
            sent = to_one ? (d ? own : 0) : own * others;
            x->kept += received = to_one && d ? 0 : whole - own;
        } else {
            bool given = of_caller(w->g, in[0]);

            sent = given || d ? 0 : one * others;
            received = given || !d ? 0 : one;
        }
        x->sent += sent;
        x->received += received;
    }
}

static double log2_up(double n)
{
    double steps = 0;

    for (double reach = 1; reach < n; reach *= 2)
        steps++;
    return steps;
}

/* Every device sends to every other: phases of them, `most` bytes in all. */
static double shares_seconds(const Walk *w, double most, double phases)
{
    const Cluster *c = w->c;
    const double near = w->per_node - 1, far = w->n - w->per_node, all = w->n - 1;
    double t = 0;

    if (near > 0)
        t += (most * near / all / c->within.bandwidth + phases * near * c->within.latency) * w->share;
    if (far > 0)
        t += w->per_node * most * far / all / c->between.bandwidth + phases * far * c->between.latency;
    return t;
}

/* `whole` bytes go round: (n - 1) / n of them by each device, in each phase. */
static double ring_seconds(const Walk *w, double whole, double phases)
{
    const Cluster *c = w->c;
    double bandwidth = w->per_node > 1 ? c->within.bandwidth : INFINITY,
           latency = w->per_node > 1 ? c->within.latency : 0;

    if (w->nodes > 1) {
        bandwidth = fmin(bandwidth, c->between.bandwidth);
        latency = fmax(latency, c->between.latency);
    }
    return phases * (w->n - 1) * (whole / w->n / bandwidth + latency);
}

static double hierarchical_seconds(const Walk *w, double whole, double phases)
{
    const Cluster *c = w->c;
    const double m = w->per_node, k = w->nodes;
    double t = 0;

    if (m > 1)
        t += (m - 1) * (whole / m / c->within.bandwidth + c->within.latency);
    if (k > 1)
        t += (k - 1) / k * whole / c->between.bandwidth + log2_up(k) * c->between.latency;
    return phases * t;
}

/* A sum for all is made first and then sent to all, unless all make it. */
static double phases_of(const Walk *w, const Exchange *e) { return exchange_reduces(e) && !w->whole ? 2 : 1; }

static double wire_seconds(const Walk *w, const Exchange *e, double whole, double most)
{
    const double phases = phases_of(w, e);

    if (!(most > 0))
        return 0;
    switch (w->c->algorithm) {
    case WIRE_RING: return ring_seconds(w, whole, phases);
    case WIRE_HIERARCHICAL: return hierarchical_seconds(w, whole, phases);
    default: return shares_seconds(w, most, phases);
    }
}

/* What passes over the links for it where all send equally much. */
static void count_links(Walk *w, const Exchange *e, double whole, double most)
{
    const double m = w->per_node, k = w->nodes, all = w->n - 1, phases = phases_of(w, e);

    if (!(most > 0) || w->c->algorithm == WIRE_SHARES)
        return;
    if (w->c->algorithm == WIRE_RING) {
        w->s->within += m > 1 ? phases * whole * all / w->n : 0;
        w->s->between += k > 1 ? phases * whole * all / w->n : 0;
    } else {
        w->s->within += phases * whole * (m - 1) / m;
        w->s->between += phases * whole * (k - 1) / k;
    }
}

/* As CPU devices in processes of their own do (exec/run/collective_span.h). */
static bool is_sent_whole(const Walk *w, const Node *n)
{
    return w->c->algorithm == WIRE_SHARES && !w->c->accelerator && w->n > 1 &&
           span_sends_whole(w->g, n, (int)w->n, (int)w->n, w->s->latency_bytes);
}

/* Seconds of the collective, the sums included. */
static double exchange_seconds(Walk *w, const Node *n)
{
    const Exchange e = exchange_of(n);
    double whole = 0, most = 0, added = 0;

    w->whole = is_sent_whole(w, n);
    for (int d = 0; d < (int)w->n; d++)
        w->traffic[d] = (Traffic){ .staging = w->traffic[d].staging, .all = w->traffic[d].all };
    for (int t = 0; t < e.tensors; t++) {
        if (exchange_turns(&e))
            count_turned(w, &e, n);
        else
            count_tensor(w, &e, n, t);
        whole += e.joined ? whole_of(w, n->in + t * e.parts, e.parts) : bytes_of(w->g, n->in[t * e.parts]);
    }
    for (int d = 0; d < (int)w->n; d++) {
        const Traffic *x = &w->traffic[d];

        w->traffic[d].all += x->sent;
        w->traffic[d].staging += w->c->algorithm == WIRE_SHARES ? x->kept : 0;
        most = fmax(most, fmax(x->sent, x->received));
        added = fmax(added, e.sum ? x->kept : 0);
    }
    if (exchange_turns(&e))
        whole /= w->n; /* of which each device sends as much as of what goes round */
    count_links(w, &e, whole, most);
    w->s->collectives += most > 0;
    return wire_seconds(w, &e, whole, most) + added / w->bandwidth;
}

/* ---- the walk ---- */

static double ready_at(const Walk *w, const ValueId *v, int n)
{
    double at = 0;

    for (int i = 0; i < n; i++)
        at = fmax(at, w->ready[v[i].i]);
    return at;
}

/* What devices that share cores wait longer for when they meet after `seconds` than if each core were always busy: who
 * wakes up where no core is idle is put on one by chance, and the core that has most is waited for.  The system evens
 * that out, and who has its turn keeps it, for a SLICE. */
static double rounds_seconds(const Walk *w, double seconds)
{
    return w->share > 1 ? fmin((w->rounds / w->share - 1) * seconds, SLICE) : 0;
}

static void run_collective(Walk *w, const Node *n)
{
    const Exchange e = exchange_of(n);
    double t = exchange_seconds(w, n), start = ready_at(w, n->in, n->n_in), end;

    w->s->wire += t;
    if (w->report) {
        w->report->collective[w->n_collective++].seconds = t;
        w->report->phase[w->phase[n->index]].wire += t;
    }
    if (w->c->overlap == OVERLAP_SUMS && exchange_reduces(&e)) {
        w->after += t / 2;
        t /= 2;
    }
    if (t > 0) {
        start = fmax(start, w->wire);
        for (int d = 0; d < w->n_shown && !w->beside; d++)
            start = fmax(start, w->clock[d]);
        if (!w->beside)
            start += rounds_seconds(w, start - w->wire);
        start += w->late;
    }
    end = start + t;
    for (int d = 0; d < w->n_shown && !w->beside && t > 0; d++)
        w->clock[d] = end;
    w->wire = t > 0 ? end : w->wire;
    for (int o = 0; o < n->n_out; o++)
        w->ready[n->out[o].i] = end;
    w->ready[0] = 0;
}

/* The host's side of device d is numbered behind all devices. */
static void run_node(Walk *w, const Node *n)
{
    int d = n->device < 0 ? 0 : n->device % w->n_shown;
    double t = node_seconds(w, n);

    w->clock[d] = fmax(w->clock[d], ready_at(w, n->in, n->n_in)) + t;
    w->busy[d] += t;
    if (w->report)
        w->busy_in[d][w->phase[n->index]] += t;
    w->flops[d] += simulate_is_free(n) ? 0 : (double)node_flops(w->g, n);
    for (int o = 0; o < n->n_out; o++)
        w->ready[n->out[o].i] = w->clock[d];
    w->ready[0] = 0;
}

/* The devices' own sums: the largest, and of a node's the mean times its devices. */
static void sum_traffic(Walk *w)
{
    double sum = 0, most = 0;

    for (int d = 0; d < (int)w->n; d++) {
        w->s->staging = fmax(w->s->staging, w->traffic[d].staging);
        most = fmax(most, w->traffic[d].all);
        sum += w->traffic[d].all;
    }
    if (w->c->algorithm != WIRE_SHARES || w->n < 2)
        return;
    w->s->within = most * (w->per_node - 1) / (w->n - 1);
    w->s->between = w->per_node * sum / w->n * (w->n - w->per_node) / (w->n - 1);
}

/* The chance that of n, each 1 with probability p, exactly k are. */
static double binomial(int n, int k, double p)
{
    double chance = k < n ? pow(1 - p, n - k) : 1;

    for (int i = 0; i < k; i++)
        chance *= p * (n - i) / (i + 1);
    return chance;
}

/* The chance that no core of `cores` has more than `most` of n that are put on them by chance. */
static double chance_of_most(int n, int cores, int most)
{
    double stand[CROWD + 1] = { 1 }; /* [i] that i of n are on the cores so far, and nowhere more than `most` */

    for (int k = 0; k < cores; k++)
        for (int i = n; i >= 0; i--) {
            double sum = 0;

            for (int j = 0; j <= most && j <= i; j++)
                sum += stand[i - j] * binomial(n - (i - j), j, 1.0 / (cores - k));
            stand[i] = sum;
        }
    return stand[n];
}

/* The expected most that a core has of n devices; of a crowd what each has, evened out. */
static double expected_rounds(double n, double cores)
{
    double sum = 0;

    if (n > CROWD || cores < 1)
        return ceil(n / cores);
    for (int most = 0; most < (int)n; most++)
        sum += 1 - chance_of_most((int)n, (int)cores, most);
    return sum;
}

static void simulate_step_place(Walk *w, const Cluster *c, const Simulated *s)
{
    const double wanted = c->cores * fmin(s->devices, c->per_node);

    w->n = s->devices;
    w->per_node = fmin(s->devices, c->per_node);
    w->nodes = ceil(w->n / c->per_node);
    w->share = c->node_cores > 0 && wanted > c->node_cores ? wanted / c->node_cores : 1;
    w->rounds = w->share > 1 ? fmax(w->share, expected_rounds(w->per_node, c->node_cores / c->cores)) : 1;
    w->slowdown = c->node_slowdown > 0 && w->per_node > 1 ? c->node_slowdown : 1;
    w->late = w->n > 1 ? c->jitter * cluster_latest(w->n) * w->share : 0;
    w->bandwidth = c->bandwidth;
    if (c->node_bandwidth > 0)
        w->bandwidth = fmin(w->bandwidth, c->node_bandwidth / w->per_node);
}

double simulate_sum(const Cluster *c, int devices, double bytes)
{
    const Simulated s = { .devices = devices };
    const Exchange e = { .sum = true };
    const double others = (devices - 1.0) / devices;
    Walk w = { .c = c };

    simulate_step_place(&w, c, &s);
    return wire_seconds(&w, &e, bytes, 2 * bytes * others) + bytes * others / w.bandwidth;
}

/* What the report is told by phase. */
static void tell_phases(const Walk *w)
{
    for (int k = 0; w->report && k < N_PHASES; k++)
        for (int d = 0; d < w->n_shown; d++)
            w->report->phase[k].seconds = fmax(w->report->phase[k].seconds, w->busy_in[d][k]);
}

static Status take_room(Walk *w, Arena *a)
{
    const size_t values = w->g->n_value, shown = (size_t)w->n_shown;

    w->ready = a ? ARENA_NEW(a, double, values + 3 * shown) : NULL;
    if (!w->ready || !(w->traffic = ARENA_NEW(a, Traffic, w->s->devices)) ||
        (w->report &&
         (!(w->phase = graph_phases(w->g, a)) || !(w->busy_in = arena_alloc(a, shown * sizeof *w->busy_in)))))
        return FAIL_NOMEM();
    if (w->report)
        memset(w->busy_in, 0, shown * sizeof *w->busy_in);
    w->clock = w->ready + values;
    w->busy = w->clock + shown;
    w->flops = w->busy + shown;
    return ST_OK;
}

Status simulate_step(Simulated *s, const Cluster *c, const Graph *g, double slower, Report *r)
{
    Walk w = { .c = c,
               .g = g,
               .s = s,
               .n_shown = s->shown,
               .slower = slower,
               .beside = c->overlap || c->accelerator,
               .report = r };
    Arena *a = arena_create_beside(g->arena);
    Status st = take_room(&w, a);

    if (st) {
        arena_free(a);
        return st;
    }
    simulate_step_place(&w, c, s);
    FOR_NODES(g, n)
        if (n->op->flags & OPF_COLLECTIVE)
            run_collective(&w, n);
        else
            run_node(&w, n);
    s->seconds = w.wire;
    for (int d = 0; d < s->shown; d++) {
        s->seconds = fmax(s->seconds, w.clock[d]);
        s->compute = fmax(s->compute, w.busy[d]);
        s->flops = fmax(s->flops, w.flops[d]);
    }
    if (!w.beside)
        s->seconds += rounds_seconds(&w, s->seconds - w.wire);
    s->seconds += w.after + c->between_steps * w.share;
    if (c->accelerator && c->overlap == OVERLAP_NONE)
        s->seconds = s->compute + s->wire;
    sum_traffic(&w);
    tell_phases(&w);
    arena_free(a);
    return ST_OK;
}
