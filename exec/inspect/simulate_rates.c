/* Takes the rates of operators, and the time between two steps, from a trace.
 *
 * An operator's rate is what its nodes compute (where the operator has FLOPs) or move, divided by the seconds that they
 * take together in a step: the median of the steps, for the first steps touch memory for the first time, and any may be
 * disturbed.  The work is taken from the graph, so the trace must be of the same step, with as many nodes and bytes for
 * every operator. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/simulate.h"
#include "graph/base/order.h"
#include "graph/ir/op.h"
#include "passes/report.h"

/* The nodes of one operator. */
typedef struct {
    const OpDef *op;
    double flops, bytes, nodes; /* in a step of the graph */
    double moved;               /* bytes in the trace */
    double *seconds;            /* [steps of the trace] */
    int64_t events;             /* in the trace */
} Sum;

typedef struct {
    Sum sum[CLUSTER_RATES];
    int n;
    double nodes; /* in a step */
    double end;   /* of the node before, seconds */
    int64_t events;
    double *between; /* [steps of the trace] seconds from the last node of the step before to the first of this */
} Sums;

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, order_doubles);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

static Sum *simulate_rates_find(Sums *s, const char *op)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->sum[i].op->name, op))
            return &s->sum[i];
    return NULL;
}

/* Adds an event of the trace, a node of some step. */
static Status add_event(Sums *s, const json_t *e, size_t most_steps, const char *path)
{
    const json_t *op = json_object_get(e, "cat"), *ts = json_object_get(e, "ts"), *dur = json_object_get(e, "dur"),
                 *bytes = json_object_get(json_object_get(e, "args"), "bytes");
    size_t step;
    Sum *x;

    if (!json_is_string(op) || !json_is_number(ts) || !json_is_number(dur) || !json_is_number(bytes) ||
        json_number_value(dur) < 0)
        return FAIL(E_INVALID,
                    "%s: 'traceEvents': expected events with 'cat', 'ts', 'dur' and 'args.bytes', as --trace writes",
                    path);
    if (json_integer_value(json_object_get(e, "pid")))
        return FAIL(E_INVALID, "%s: expected a trace of one device, found an event of device %lld", path,
                    (long long)json_integer_value(json_object_get(e, "pid")));
    if (!(x = simulate_rates_find(s, json_string_value(op))))
        return ST_OK;
    x->moved += json_number_value(bytes);
    step = (size_t)(x->events++ / (int64_t)x->nodes);
    if (step < most_steps)
        x->seconds[step] += 1e-6 * json_number_value(dur);
    step = (size_t)(s->events / (int64_t)s->nodes);
    if (s->events++ % (int64_t)s->nodes == 0 && step < most_steps)
        s->between[step] = fmax(0, 1e-6 * json_number_value(ts) - s->end);
    s->end = 1e-6 * (json_number_value(ts) + json_number_value(dur));
    return ST_OK;
}

static Status simulate_rates_take(Cluster *c, const Sums *s, size_t most_steps, const char *path)
{
    const int steps_begun = s->n ? (int)fmin(ceil((double)s->events / s->nodes), (double)most_steps) : 0;

    c->n_rate = 0;
    c->between_steps = steps_begun > 1 ? median(s->between + 1, steps_begun - 1) : 0; /* nothing is before the first */
    for (int i = 0; i < s->n; i++) {
        const Sum *x = &s->sum[i];
        const double steps = (double)x->events / x->nodes;
        OpRate *r = &c->rate[c->n_rate];
        double seconds;

        if (steps < 1)
            return FAIL(E_INVALID, "%s: expected %g nodes of %s in each step, found %lld in all: is it of this model?",
                        path, x->nodes, x->op->name, (long long)x->events);
        if (fabs(x->moved / steps - x->bytes) > 0.02 * x->bytes + 64)
            return FAIL(E_INVALID, "%s: expected %.0f bytes of %s in each step, found %.0f: is it of this batch size?",
                        path, x->bytes, x->op->name, x->moved / steps);
        /* a trace ends in the middle of a step when it is full */
        seconds = median(x->seconds, (int)fmin(steps, (double)most_steps));
        if (!(seconds > 0) || !(x->bytes > 0))
            continue;
        snprintf(r->op, sizeof r->op, "%s", x->op->name);
        r->flops = x->op->flops && x->flops > 0 ? x->flops / seconds : 0;
        r->bytes = r->flops > 0 ? 0 : x->bytes / seconds;
        c->n_rate++;
    }
    return ST_OK;
}

Status simulate_read_rates(Cluster *c, const Graph *g, const char *path)
{
    json_error_t why;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &why), *list = json_object_get(root, "traceEvents");
    Arena *a;
    Sums s = { .n = 0 };
    size_t most_steps;
    Status st = ST_OK;

    if (!root)
        return why.line > 0 ? FAIL(E_INVALID, "%s:%d: %s", path, why.line, why.text)
                            : FAIL(E_IO, "%s: cannot be read: %s", path, why.text);
    a = arena_create();
    if (!json_array_size(list))
        st = FAIL(E_INVALID, "%s: 'traceEvents': expected a list of events, found none", path);
    FOR_NODES(g, n) {
        Sum *x = simulate_rates_find(&s, n->op->name);

        if (simulate_is_free(n) || (!x && s.n == CLUSTER_RATES))
            continue;
        if (!x)
            *(x = &s.sum[s.n++]) = (Sum){ .op = n->op };
        x->flops += (double)node_flops(g, n);
        x->bytes += simulate_bytes(g, n);
        x->nodes++;
        s.nodes++;
    }
    most_steps = json_array_size(list) / (size_t)fmax(s.nodes, 1) + 1;
    if (!st && !(s.between = a ? ARENA_NEW(a, double, most_steps) : NULL))
        st = FAIL_NOMEM();
    for (int i = 0; i < s.n && !st; i++)
        if (!a || !(s.sum[i].seconds = ARENA_NEW(a, double, most_steps)))
            st = FAIL_NOMEM();
    for (size_t i = 0; i < json_array_size(list) && !st; i++)
        st = add_event(&s, json_array_get(list, i), most_steps, path);
    if (!st)
        st = simulate_rates_take(c, &s, most_steps, path);
    arena_free(a);
    json_decref(root);
    return st;
}
