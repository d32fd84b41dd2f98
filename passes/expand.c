/* expand: from one graph and its placements to the graph of all replicas.
 *
 * A node all of whose values are B is copied once per device (state lives once per device), any other once per replica,
 * with local shapes, reading copies in the placement its rule asked for.  Consumers come after producers, so when a
 * node is copied the copies of its inputs exist.  Constants are shared: they are the same everywhere and never
 * written. */
#include "passes/expand.h"

#include <string.h>

static Status fail_or_nomem(const Expander *x) { return x->g->status ? x->g->status : FAIL_NOMEM(); }

/* ---- state ---- */

static ValueId state_copy(Expander *x, ValueId v, const char *logical, bool first, int r, int d)
{
    const Value *of = value(x->g, v);
    const char *name = r >= 0 ? arena_printf(x->a, "%s@r%d", logical, r) : arena_printf(x->a, "%s@d%d", logical, d);
    ValueId copy;
    Value *c;

    if (!name)
        return NO_VALUE;
    if (first) {
        graph_rename(x->g, v, name);
        copy = v;
    } else {
        copy = graph_add_const_nocopy(x->g, name, of->init);
    }
    if (x->g->status)
        return NO_VALUE;
    c = value(x->g, copy);
    c->kind = V_STATE;
    c->trainable = of->trainable;
    c->transient = of->transient;
    c->layout = of->layout;
    c->partial = of->partial;
    c->replica = r;
    c->device = d;
    c->logical = logical;
    return copy;
}

/* Mirrored: one copy per device, all started alike; a partial sum has one per replica. */
static Status expand_state(Expander *x, ValueId v)
{
    bool partial = value(x->g, v)->partial;
    int n = partial ? x->p->replicas : x->p->devices;
    const char *logical = value(x->g, v)->name;

    if (!(x->native[v.i] = ARENA_NEW(x->a, ValueId, n)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        x->native[v.i][i] = state_copy(x, v, logical, i == 0, partial ? i : -1, partial ? x->p->device_of[i] : i);
        if (!has_value(x->native[v.i][i]))
            return fail_or_nomem(x);
    }
    return ST_OK;
}

/* ---- nodes ---- */

static bool runs_per_replica(const Expander *x, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && x->t->value[n->out[i].i].kind != PL_B)
            return true;
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && x->t->want[n->index][i].kind != PL_B && !(n->op->flags & OPF_STACKS_L))
            return true;
    return false;
}

static Status gather_inputs(Expander *x, const Node *n, bool per_replica, const ValueId **lists)
{
    for (int i = 0; i < n->n_in; i++) {
        Place want = x->t->want[n->index][i];

        if (!has_value(n->in[i]))
            continue;
        lists[i] = want.kind == PL_L && !per_replica ? expand_stacked(x, n->in[i]) : expand_copies(x, n->in[i], want);
        if (!lists[i])
            return fail_or_nomem(x);
    }
    return ST_OK;
}

/* Output o of the copies [n] in its placement: a B output of copies per replica is taken from each device's first. */
static Status record_output(Expander *x, const Node *n, Node *const *copy, bool per_replica, int o)
{
    ValueId v = n->out[o];
    bool by_device = x->t->value[v.i].kind == PL_B;
    int count = by_device ? x->p->devices : x->p->replicas;

    if (!(x->native[v.i] = ARENA_NEW(x->a, ValueId, count)))
        return FAIL_NOMEM();
    for (int i = 0; i < count; i++)
        x->native[v.i][i] = copy[by_device && per_replica ? x->p->first_replica[i] : i]->out[o];
    return ST_OK;
}

static Status expand_one(Expander *x, const Node *n)
{
    bool per_replica = runs_per_replica(x, n);
    int count = per_replica ? x->p->replicas : x->p->devices;
    const ValueId **lists = ARENA_NEW(x->a, const ValueId *, n->n_in);
    ValueId *in = ARENA_NEW(x->a, ValueId, n->n_in);
    Node **copy = ARENA_NEW(x->a, Node *, count);

    if (!lists || !in || !copy)
        return FAIL_NOMEM();
    TRY(gather_inputs(x, n, per_replica, lists));
    for (int k = 0; k < count; k++) {
        int d = per_replica ? x->p->device_of[k] : k;

        for (int i = 0; i < n->n_in; i++)
            in[i] = !lists[i] ? NO_VALUE : lists[i][x->t->want[n->index][i].kind == PL_B ? d : k];
        if (!(copy[k] = expand_clone(x, n, in, per_replica ? k : -1, d)))
            return fail_or_nomem(x);
    }
    for (int o = 0; o < n->n_out; o++)
        if (has_value(n->out[o])) {
            TRY(record_output(x, n, copy, per_replica, o));
            if (x->t->early[n->out[o].i] && !expand_copies(x, n->out[o], PLACE_B))
                return fail_or_nomem(x);
        }
    return ST_OK;
}

/* ---- the rest ---- */

static Status expand_updates(Expander *x)
{
    Graph *g = x->g;
    int n = g->n_update;
    Update *old = arena_memdup(x->a, g->update, (size_t)n * sizeof *old);

    if (n && !old)
        return FAIL_NOMEM();
    g->n_update = 0;
    for (int i = 0; i < n; i++) {
        Place at = x->t->value[old[i].state.i];
        const ValueId *next = expand_copies(x, old[i].next, at), *state = x->native[old[i].state.i];

        if (!next)
            return fail_or_nomem(x);
        for (int k = 0; k < (at.kind == PL_B ? x->p->devices : x->p->replicas); k++)
            graph_add_update(g, state[k], next[k]);
    }
    return g->status;
}

static Status expand_outputs(Expander *x)
{
    for (int i = 0; i < x->g->n_output; i++) {
        ValueId v = expand_on_first(x, x->g->output[i].value);

        if (!has_value(v))
            return fail_or_nomem(x);
        x->g->output[i].value = v;
    }
    return ST_OK;
}

Status expand_graph(Graph *g, const Partition *p, const Placements *t, Arena *a)
{
    Expander x = { .g = g, .a = a, .p = p, .t = t, .n_value = g->n_value };
    uint32_t n_old = g->n_node;

    x.native = ARENA_NEW(a, ValueId *, x.n_value);
    x.whole = ARENA_NEW(a, ValueId *, x.n_value);
    x.split = ARENA_NEW(a, SplitCopies *, x.n_value);
    if (!x.native || !x.whole || !x.split)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < x.n_value; i++)
        if (g->value[i]->kind == V_STATE)
            TRY(expand_state(&x, (ValueId){ i }));
    for (uint32_t i = 0; i < n_old; i++)
        if (g->node[i]->op)
            TRY(expand_one(&x, g->node[i]));
    TRY(expand_updates(&x));
    TRY(expand_outputs(&x));
    for (uint32_t i = 0; i < n_old; i++)
        if (g->node[i]->op)
            graph_remove(g, g->node[i]);
    return g->status;
}
