/* Union-find: a value that was replaced points to what replaced it, and looking through a chain shortens it.  What is
 * appended meanwhile stands behind the table, which grows by doubling when one of them is replaced. */
#include "graph/ir/rewrite.h"

#include <string.h>

struct Rewrite {
    Arena *a;
    uint32_t *by; /* [n] 1 + the value that stands for it, 1 for none; 0: not replaced */
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

/* What stands for input `v` of n: by, unless n makes that of v. */
static ValueId read_by(const Graph *g, const Node *n, ValueId v, ValueId by)
{
    return has_value(by) && value(g, by)->producer == n ? v : by;
}

void rewrite_read(Graph *g, Node *n)
{
    for (int i = 0; g->rewrite && g->rewrite->n_replaced && i < n->n_in; i++)
        n->in[i] = read_by(g, n, n->in[i], rewrite_in(g, n->in[i]));
}

static bool rewrite_reserve(Rewrite *r, uint32_t n)
{
    uint32_t *grown;

    if (n <= r->n)
        return true;
    n = n > 2 * r->n ? n : 2 * r->n;
    if (!(grown = ARENA_NEW(r->a, uint32_t, n)))
        return false;
    memcpy(grown, r->by, r->n * sizeof *grown);
    arena_give_back(r->a, r->by, r->n * sizeof *grown);
    r->by = grown;
    r->n = n;
    return true;
}

/* As far as both are known. */
static bool same_dtype(const Value *a, const Value *b)
{
    return a->dtype == b->dtype || a->dtype == DT_NONE || b->dtype == DT_NONE;
}

static bool same_shape(const Value *a, const Value *b)
{
    return shape_eq(a->shape, b->shape) || !shape_known(a->shape) || !shape_known(b->shape);
}

static void record(Graph *g, ValueId old, ValueId by)
{
    Rewrite *r = g->rewrite;
    uint32_t up;

    if (!rewrite_reserve(r, old.i + 1)) {
        graph_fail_nomem(g);
        return;
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

/* One walk: for a few replacements. */
static void rewrite_apply(Graph *g, ValueId old, ValueId by)
{
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

void graph_redirect(Graph *g, ValueId old, ValueId by)
{
    if (g->status || !has_value(old) || value_eq(old, by))
        return;
    if (has_value(by) && !same_dtype(value(g, old), value(g, by))) {
        g->status = FAIL(E_INTERNAL, "'%s' would be replaced by a value of another type, '%s'", value(g, old)->name,
                         value(g, by)->name);
        return;
    }
    if (g->rewrite)
        record(g, old, by);
    else
        rewrite_apply(g, old, by);
}

void graph_replace(Graph *g, ValueId old, ValueId by)
{
    if (!g->status && has_value(old) && has_value(by) && !same_shape(value(g, old), value(g, by)))
        g->status = FAIL(E_INTERNAL, "'%s' would be replaced by a value of another shape, '%s'", value(g, old)->name,
                         value(g, by)->name);
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

/* A list of n values in the graph's arena; NULL, and the graph has failed, without memory. */
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
