/* Rewrites by union-find: a replaced value points to its replacement, and a look-up shortens the chain.  Values that
 * are appended meanwhile are not in the table until one of them is replaced; it then grows by doubling. */
#include "graph/ir/rewrite.h"

#include <string.h>

struct Rewrite {
    Arena *a;
    uint32_t *by; /* [n] 1 + the id of its replacement (1: NO_VALUE); 0: not replaced */
    uint32_t n, n_replaced;
};

Status rewrite_begin(Graph *g, Arena *a)
{
    Rewrite *r = ARENA_NEW(a, Rewrite, 1);

    if (g->rewrite)
        return FAIL(E_INTERNAL, "a rewrite of the graph is open already");
    if (!r || !(r->by = ARENA_NEW(a, uint32_t, g->n_value)))
        return FAIL_NOMEM();
    r->a = a;
    r->n = g->n_value;
    g->rewrite = r;
    return g->status;
}

static uint32_t rewrite_resolve(Rewrite *r, uint32_t v)
{
    while (v < r->n && r->by[v]) {
        uint32_t up = r->by[v] - 1;

        if (up < r->n && r->by[up])
            r->by[v] = r->by[up];
        v = up;
    }
    return v;
}

ValueId rewrite_in(const Graph *g, ValueId v) { return g->rewrite ? (ValueId){ rewrite_resolve(g->rewrite, v.i) } : v; }

/* The replacement of input `v` of n: by, unless n produces `by` from v. */
static ValueId read_by(const Graph *g, const Node *n, ValueId v, ValueId by)
{
    return has_value(by) && value(g, by)->producer == n ? v : by;
}

void rewrite_read(Graph *g, Node *n)
{
    for (int i = 0; g->rewrite && g->rewrite->n_replaced && i < n->n_in; i++)
        n->in[i] = read_by(g, n, n->in[i], rewrite_in(g, n->in[i]));
}

static void record(Graph *g, ValueId old, ValueId by)
{
    Rewrite *r = g->rewrite;
    uint32_t up;

    if (old.i >= r->n) {
        const uint32_t n = old.i + 1 > 2 * r->n ? old.i + 1 : 2 * r->n;
        uint32_t *grown = ARENA_NEW(r->a, uint32_t, n);

        if (!grown) {
            graph_fail_nomem(g);
            return;
        }
        memcpy(grown, r->by, r->n * sizeof *grown);
        arena_give_back(r->a, r->by, r->n * sizeof *grown);
        r->by = grown;
        r->n = n;
    }
    up = rewrite_resolve(r, by.i);
    if (rewrite_resolve(r, old.i) == up && up != old.i)
        return;
    if (up == old.i || r->by[old.i]) {
        g->status = FAIL(E_INTERNAL, "'%s' would be replaced by %s", value(g, old)->name,
                         up == old.i ? "itself" : "two different values");
        return;
    }
    r->by[old.i] = up + 1;
    r->n_replaced++;
}

void graph_redirect(Graph *g, ValueId old, ValueId by)
{
    const Value *v = value(g, old), *w = value(g, by);

    if (g->status || !has_value(old) || value_eq(old, by))
        return;
    if (has_value(by) && v->dtype != w->dtype && v->dtype != DT_NONE && w->dtype != DT_NONE) {
        g->status = FAIL(E_INTERNAL, "'%s' would be replaced by a value of another type, '%s'", v->name, w->name);
        return;
    }
    if (g->rewrite) {
        record(g, old, by);
        return;
    }
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (value_eq(n->in[i], old))
                n->in[i] = read_by(g, n, old, by);
    for (int i = 0; i < g->n_output; i++)
        if (value_eq(g->output[i].value, old))
            g->output[i].value = by;
    for (int i = 0; i < g->n_update; i++)
        if (value_eq(g->update[i].next, old))
            g->update[i].next = by;
}

void graph_replace(Graph *g, ValueId old, ValueId by)
{
    const Value *v = value(g, old), *w = value(g, by);

    if (!g->status && has_value(old) && has_value(by) && shape_known(v->shape) && shape_known(w->shape) &&
        !shape_eq(v->shape, w->shape))
        g->status = FAIL(E_INTERNAL, "'%s' would be replaced by a value of another shape, '%s'", v->name, w->name);
    graph_redirect(g, old, by);
}

Status rewrite_end(Graph *g)
{
    if (g->rewrite && g->rewrite->n_replaced && !g->status) {
        FOR_NODES(g, n)
            rewrite_read(g, n);
        for (int i = 0; i < g->n_output; i++)
            g->output[i].value = rewrite_in(g, g->output[i].value);
        for (int i = 0; i < g->n_update; i++)
            g->update[i].next = rewrite_in(g, g->update[i].next);
    }
    g->rewrite = NULL;
    return g->status;
}

void rewrite_drop(Graph *g) { g->rewrite = NULL; }

/* Copies a list of n values into the graph's arena; NULL when memory runs out (g->status). */
static ValueId *list_of(Graph *g, int n, const ValueId *v)
{
    ValueId *list = g->status ? NULL : ARENA_NEW(g->arena, ValueId, n);

    if (!list)
        graph_fail_nomem(g);
    else if (n)
        memcpy(list, v, (size_t)n * sizeof *list);
    return list;
}

void node_set_inputs(Graph *g, Node *n, int n_in, const ValueId *in)
{
    ValueId *list = list_of(g, n_in, in);

    if (!list)
        return;
    n->in = list;
    n->n_in = n_in;
}

static void set_output(Graph *g, Node *n, int o, ValueId v)
{
    n->out[o] = v;
    if (!has_value(v))
        return;
    value(g, v)->producer = n;
    value(g, v)->out_index = o;
}

void node_set_outputs(Graph *g, Node *n, int n_out, const ValueId *out)
{
    ValueId *list = list_of(g, n_out, out);

    if (!list)
        return;
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && value(g, n->out[i])->producer == n)
            value(g, n->out[i])->producer = NULL;
    n->out = list;
    n->n_out = n_out;
    for (int i = 0; i < n_out; i++)
        set_output(g, n, i, list[i]);
}

void node_set_output(Graph *g, Node *n, int o, ValueId v)
{
    if (!g->status && o >= n->n_out) {
        ValueId *list = ARENA_NEW(g->arena, ValueId, o + 1);

        if (list && n->n_out)
            memcpy(list, n->out, (size_t)n->n_out * sizeof *list);
        if (!list)
            graph_fail_nomem(g);
        else
            n->n_out = o + 1, n->out = list;
    }
    if (!g->status)
        set_output(g, n, o, v);
}
