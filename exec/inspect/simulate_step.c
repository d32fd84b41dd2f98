/* Times a step: a walk over the scheduled graph in which each device computes its nodes in order, and all meet in
 * collectives.
 *
 * A node takes the longer of what its FLOPs and its bytes take (a roofline), by the rates of its operator where those
 * are known.  A collective begins when the last device has come to it and the collective before has ended.  Where
 * collectives overlap, it begins when its inputs are there, and only the readers of its outputs wait: a bucket of
 * gradients leaves when its last gradient is made, as in exec/gpu.  CPU devices wait in place (exec/run/collective.c).
 * On accelerators whose collectives do not overlap, a step takes the sum of both.  With OVERLAP_SUMS the first phase of
 * an all-reduce overlaps; the second phases of all of them follow when everything is computed and summed.
 *
 * The graph may show only some of the devices (BuildOptions.world); Simulated.devices has their number. */
#include <math.h>
#include <string.h>

#include "exec/inspect/simulate.h"
#include "exec/run/collective_span.h"
#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"
#include "passes/report.h"

/* Seconds for which Linux leaves a thread its core while others want it: a tick, at 250 a second. */
static const double SLICE = 0.004;
enum { MOST_COUNTED = 32 }; /* of so many devices of a node the load of each core is computed; of more it is even */

typedef struct {
    double sent, received, kept; /* bytes of the present collective; kept: until they are used */
    double staging, all;         /* bytes kept and sent by all collectives */
} Traffic;

typedef struct {
    const Cluster *c;
    const Graph *g;
    Simulated *s;
    int n_shown;
    double n, per_node, nodes; /* devices; devices of the fullest node; nodes with devices */
    bool whole;                /* the present collective sends parts of a small sum whole */
    double late;               /* seconds that a collective waits for the latest device */
    double rounds;             /* expected devices on the core that has most */
    double share, slowdown;    /* factors by which devices of a node slow each other: on shared cores, and otherwise */
    double bandwidth;          /* of memory, bytes a second */
    double node_factor;        /* of the seconds of each node */
    bool beside;               /* collectives have a stream of their own */
    double *ready;             /* [value] seconds after the step's beginning */
    double *clock;             /* [shown] */
    double *busy, *flops;
    Traffic *traffic; /* [n] */
    double wire;      /* when the last collective ends */
    double after;     /* OVERLAP_SUMS: seconds of the second phases */
    Report *report;   /* receives seconds by phase and collective; NULL: none does */
    const uint8_t *phase;
    double (*busy_in)[N_PHASES]; /* [shown] */
    int n_collective;            /* seen so far */
} StepTimes;

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

/* FLOPs a second, by the type of the node's first input. */
static double peak(const StepTimes *w, const Node *n)
{
    bool half = n->n_in && has_value(n->in[0]) && dtype_size(in_value(w->g, n, 0)->dtype) == 2;

    return half && w->c->flops_half > 0 ? w->c->flops_half : w->c->flops;
}

/* Devices of a node share units that only products keep busy.  So an operator whose rate is below the peak is slowed by
 * its neighbours in proportion to the part of the peak that it uses. */
static double node_seconds(const StepTimes *w, const Node *n)
{
    const double flops = (double)node_flops(w->g, n), bytes = simulate_bytes(w->g, n);
    const OpRate *rate = NULL;
    double t, used;

    if (simulate_is_free(n))
        return 0;
    for (int i = 0; i < w->c->n_rate && !rate; i++)
        if (!strcmp(w->c->rate[i].op, n->op->name))
            rate = &w->c->rate[i];
    if (!rate)
        t = flops / peak(w, n);
    else
        t = rate->flops > 0 ? flops / rate->flops : bytes / rate->bytes;
    used = !rate ? 1 : fmin(1, rate->flops / peak(w, n));
    t *= w->share * (1 + (w->slowdown - 1) * used);
    return (fmax(t, bytes / w->bandwidth) + w->c->launch) * w->node_factor;
}

/* ---- collectives ---- */

static bool is_from_caller(const Graph *g, ValueId v)
{
    const Value *x = value(g, v);

    return x->kind == V_INPUT || x->kind == V_CONST;
}

/* Bytes of n values together. */
static double whole_of(const StepTimes *w, const ValueId *v, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += bytes_of(w->g, v[i]);
    return sum;
}

/* Bytes of the piece that device d gets of tensor t, which has `whole` bytes. */
static double piece_bytes(const StepTimes *w, const Exchange *e, const Node *n, int t, int d, double whole)
{
    const Shape *s = in_value(w->g, n, t * e->parts)->shape;
    int count;
    const int64_t *counts = node_ints(n, "counts", &count);
    int at = count > e->copies ? t * e->copies + d : d;

    return at < count && s->dim[e->cut] ? whole / (double)s->dim[e->cut] * (double)counts[at] : 0;
}

/* Traffic of an all-to-all, where pieces along one axis become pieces along another: each device sends the part of the
 * others' pieces that it holds. */
static void count_regrouped(StepTimes *w, const Exchange *e, const Node *n)
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

/* Traffic of tensor t: what each device sends to all others and receives from them when data goes only where it is
 * needed, and what it keeps of that until it is used.  Lists of pieces have one for each device, shown or not. */
static void count_tensor(StepTimes *w, const Exchange *e, const Node *n, int t)
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
            bool given = is_from_caller(w->g, in[0]);

            sent = given || d ? 0 : one * others;
            received = given || !d ? 0 : one;
        }
        x->sent += sent;
        x->received += received;
    }
}

/* The smallest k with 2^k >= n. */
static double log2_up(double n)
{
    double steps = 0;

    for (double reach = 1; reach < n; reach *= 2)
        steps++;
    return steps;
}

/* Every device sends to every other: `phases` times, `most` bytes in all. */
static double shares_seconds(const StepTimes *w, double most, double phases)
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

/* `whole` bytes go round a ring: each device passes on (n - 1) / n of them in each phase. */
static double ring_seconds(const StepTimes *w, double whole, double phases)
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

/* In each phase a ring within nodes, and recursive doubling between them. */
static double hierarchical_seconds(const StepTimes *w, double whole, double phases)
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

/* Seconds of a collective of `whole` bytes in `phases` phases, in which no device sends or receives more than `most`
 * bytes. */
static double wire_seconds(const StepTimes *w, double whole, double most, double phases)
{
    if (!(most > 0))
        return 0;
    switch (w->c->algorithm) {
    case WIRE_RING: return ring_seconds(w, whole, phases);
    case WIRE_HIERARCHICAL: return hierarchical_seconds(w, whole, phases);
    default: return shares_seconds(w, most, phases);
    }
}

/* Seconds of the collective, the additions of its sums included.  Counts its traffic: by device, and with the other
 * algorithms than WIRE_SHARES, in which all send equally much, by link. */
static double exchange_seconds(StepTimes *w, const Node *n)
{
    const Exchange e = exchange_of(n);
    const bool shares = w->c->algorithm == WIRE_SHARES;
    const double m = w->per_node, k = w->nodes;
    double whole = 0, most = 0, added = 0, phases, ring;

    /* as CPU devices in processes of their own do */
    w->whole = shares && !w->c->accelerator && w->n > 1 &&
               span_sends_whole(w->g, n, (int)w->n, (int)w->n, w->s->latency_bytes);
    for (int d = 0; d < (int)w->n; d++)
        w->traffic[d] = (Traffic){ .staging = w->traffic[d].staging, .all = w->traffic[d].all };
    for (int t = 0; t < e.tensors; t++) {
        if (exchange_resplits(&e))
            count_regrouped(w, &e, n);
        else
            count_tensor(w, &e, n, t);
        whole += e.joined ? whole_of(w, n->in + t * e.parts, e.parts) : bytes_of(w->g, n->in[t * e.parts]);
    }
    for (int d = 0; d < (int)w->n; d++) {
        const Traffic *x = &w->traffic[d];

        w->traffic[d].all += x->sent;
        w->traffic[d].staging += shares ? x->kept : 0;
        most = fmax(most, fmax(x->sent, x->received));
        added = fmax(added, e.sum ? x->kept : 0);
    }
    if (exchange_resplits(&e))
        whole /= w->n; /* each device sends its part of all of it, as if so much went round */
    phases = exchange_reduces(&e) && !w->whole ? 2 : 1; /* a sum for all is made, then sent to all */
    ring = phases * whole * (w->n - 1) / w->n;
    if (most > 0 && !shares) {
        w->s->within += w->c->algorithm == WIRE_HIERARCHICAL ? phases * whole * (m - 1) / m : m > 1 ? ring : 0;
        w->s->between += w->c->algorithm == WIRE_HIERARCHICAL ? phases * whole * (k - 1) / k : k > 1 ? ring : 0;
    }
    w->s->collectives += most > 0;
    return wire_seconds(w, whole, most, phases) + added / w->bandwidth;
}

/* ---- the walk ---- */

/* When the last of n values is ready. */
static double ready_at(const StepTimes *w, const ValueId *v, int n)
{
    double at = 0;

    for (int i = 0; i < n; i++)
        at = fmax(at, w->ready[v[i].i]);
    return at;
}

/* The additional seconds that devices which share cores wait for each other when they meet after `seconds`, compared
 * with cores that are always busy.  A thread that wakes up while no core is idle is put on one by chance, and the
 * fullest core is waited for.  The system evens that out; a running thread keeps its core for at most a SLICE. */
static double rounds_seconds(const StepTimes *w, double seconds)
{
    return w->share > 1 ? fmin((w->rounds / w->share - 1) * seconds, SLICE) : 0;
}

static void run_collective(StepTimes *w, const Node *n)
{
    const Exchange e = exchange_of(n);
    double t = exchange_seconds(w, n), start = ready_at(w, n->in, n->n_in), end;

    w->s->wire += t;
    if (w->report) {
        w->report->node_seconds[n->index] = t;
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

/* Nodes on the host's side of device d have a device number behind all devices. */
static void run_node(StepTimes *w, const Node *n)
{
    int d = n->device < 0 ? 0 : n->device % w->n_shown;
    double t = node_seconds(w, n);

    w->clock[d] = fmax(w->clock[d], ready_at(w, n->in, n->n_in)) + t;
    w->busy[d] += t;
    if (w->report) {
        w->report->node_seconds[n->index] = t;
        w->busy_in[d][w->phase[n->index]] += t;
    }
    w->flops[d] += simulate_is_free(n) ? 0 : (double)node_flops(w->g, n);
    for (int o = 0; o < n->n_out; o++)
        w->ready[n->out[o].i] = w->clock[d];
    w->ready[0] = 0;
}

/* The probability that exactly k of n events of probability p happen. */
static double binomial(int n, int k, double p)
{
    double chance = k < n ? pow(1 - p, n - k) : 1;

    for (int i = 0; i < k; i++)
        chance *= p * (n - i) / (i + 1);
    return chance;
}

/* The probability that none of `cores` cores has more than `most` of n devices that are put on them by chance. */
static double chance_of_most(int n, int cores, int most)
{
    /* [i] the probability that i of n are on the cores so far, and at most `most` on each */
    double chance[MOST_COUNTED + 1] = { 1 };

    for (int k = 0; k < cores; k++)
        for (int i = n; i >= 0; i--) {
            double sum = 0;

            for (int j = 0; j <= most && j <= i; j++)
                sum += chance[i - j] * binomial(n - (i - j), j, 1.0 / (cores - k));
            chance[i] = sum;
        }
    return chance[n];
}

/* The expected number of devices on the fullest core; of many devices, their even share. */
static double expected_rounds(double n, double cores)
{
    double sum = 0;

    if (n > MOST_COUNTED || cores < 1)
        return ceil(n / cores);
    for (int most = 0; most < (int)n; most++)
        sum += 1 - chance_of_most((int)n, (int)cores, most);
    return sum;
}

/* How many devices there are, on how many nodes, and by how much they slow each other. */
static void place_devices(StepTimes *w, const Cluster *c, const Simulated *s)
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
    const double others = (devices - 1.0) / devices;
    StepTimes w = { .c = c };

    place_devices(&w, c, &s);
    return wire_seconds(&w, bytes, 2 * bytes * others, 2) + bytes * others / w.bandwidth;
}

static Status allocate_walk(StepTimes *w, Arena *a)
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

Status simulate_step(Simulated *s, const Cluster *c, const Graph *g, double slowdown, Report *r)
{
    StepTimes w = { .c = c,
                    .g = g,
                    .s = s,
                    .n_shown = s->shown,
                    .node_factor = slowdown,
                    .beside = c->overlap || c->accelerator,
                    .report = r };
    Arena *a = arena_create_beside(g->arena);
    Status st = allocate_walk(&w, a);
    double sum = 0, most = 0;

    if (st) {
        arena_free(a);
        return st;
    }
    place_devices(&w, c, s);
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
    for (int d = 0; d < (int)w.n; d++) {
        s->staging = fmax(s->staging, w.traffic[d].staging);
        most = fmax(most, w.traffic[d].all);
        sum += w.traffic[d].all;
    }
    if (c->algorithm == WIRE_SHARES && w.n > 1) {
        s->within = most * (w.per_node - 1) / (w.n - 1);
        s->between = w.per_node * sum / w.n * (w.n - w.per_node) / (w.n - 1);
    }
    for (int k = 0; r && k < N_PHASES; k++)
        for (int d = 0; d < s->shown; d++)
            r->phase[k].seconds = fmax(r->phase[k].seconds, w.busy_in[d][k]);
    arena_free(a);
    return ST_OK;
}
