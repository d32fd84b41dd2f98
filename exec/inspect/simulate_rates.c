/* Rates of operators from a trace: what all nodes of an operator took together, over what they compute (where the
 * operator has FLOPs) or move.  The graph says how much that is, so the trace must be of the same step: as many nodes
 * and as many bytes, for every operator. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "exec/inspect/simulate.h"
#include "graph/op.h"
#include "passes/report.h"

typedef struct {
    const OpDef *op;
    double flops, bytes, nodes;    /* of the graph */
    double seconds, moved, events; /* of the trace */
} Sum;

typedef struct {
    Sum sum[CLUSTER_RATES];
    int n;
} Sums;

static Sum *find(Sums *s, const char *op)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->sum[i].op->name, op))
            return &s->sum[i];
    return NULL;
}

static void add_graph(Sums *s, const Graph *g)
{
    FOR_NODES(g, n) {
        Sum *x = find(s, n->op->name);

        if (simulate_is_free(n) || (!x && s->n == CLUSTER_RATES))
            continue;
        if (!x)
            *(x = &s->sum[s->n++]) = (Sum){ .op = n->op };
        x->flops += (double)node_flops(g, n);
        x->bytes += simulate_bytes(g, n);
        x->nodes++;
    }
}

static Status add_event(Sums *s, const json_t *e, const char *path)
{
    const json_t *op = json_object_get(e, "cat"), *dur = json_object_get(e, "dur"),
                 *bytes = json_object_get(json_object_get(e, "args"), "bytes");
    Sum *x;

    if (!json_is_string(op) || !json_is_number(dur) || !json_is_number(bytes) || json_number_value(dur) < 0)
        return FAIL(E_INVALID,
                    "%s: 'traceEvents': expected events with 'cat', 'dur' and 'args.bytes', as --trace writes", path);
    if (json_integer_value(json_object_get(e, "pid")))
        return FAIL(E_INVALID, "%s: expected a trace of one device, found an event of device %lld", path,
                    (long long)json_integer_value(json_object_get(e, "pid")));
    if (!(x = find(s, json_string_value(op))))
        return ST_OK;
    x->seconds += 1e-6 * json_number_value(dur);
    x->moved += json_number_value(bytes);
    x->events++;
    return ST_OK;
}

static Status take(Cluster *c, const Sums *s, const char *path)
{
    double steps = s->n ? floor(s->sum[0].events / s->sum[0].nodes) : 0;

    c->n_rate = 0;
    for (int i = 0; i < s->n; i++) {
        const Sum *x = &s->sum[i];
        OpRate *r = &c->rate[c->n_rate];

        steps = fmin(steps, floor(x->events / x->nodes)); /* a trace ends in the middle of a step when it is full */
        if (steps < 1)
            return FAIL(E_INVALID, "%s: expected %g nodes of %s in each step, found %g in all: is it of this model?",
                        path, x->nodes, x->op->name, x->events);
        if (fabs(x->moved / x->events * x->nodes - x->bytes) > 0.02 * x->bytes + 64)
            return FAIL(E_INVALID, "%s: expected %.0f bytes of %s in each step, found %.0f: is it of this batch size?",
                        path, x->bytes, x->op->name, x->moved / x->events * x->nodes);
        if (!(x->seconds > 0) || !(x->bytes > 0))
            continue;
        snprintf(r->op, sizeof r->op, "%s", x->op->name);
        r->flops = x->op->flops && x->flops > 0 ? x->flops * x->events / x->nodes / x->seconds : 0;
        r->bytes = r->flops > 0 ? 0 : x->bytes * x->events / x->nodes / x->seconds;
        c->n_rate++;
    }
    return ST_OK;
}

Status simulate_read_rates(Cluster *c, const Graph *g, const char *path)
{
    json_error_t why;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &why), *list = json_object_get(root, "traceEvents");
    Sums s = { .n = 0 };
    Status st = ST_OK;

    if (!root)
        return why.line > 0 ? FAIL(E_INVALID, "%s:%d: %s", path, why.line, why.text)
                            : FAIL(E_IO, "%s: cannot be read: %s", path, why.text);
    if (!json_array_size(list))
        st = FAIL(E_INVALID, "%s: 'traceEvents': expected a list of events, found none", path);
    add_graph(&s, g);
    for (size_t i = 0; i < json_array_size(list) && !st; i++)
        st = add_event(&s, json_array_get(list, i), path);
    if (!st)
        st = take(c, &s, path);
    json_decref(root);
    return st;
}
