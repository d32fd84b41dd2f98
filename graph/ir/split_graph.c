/* Splitting a graph: both parts are copies of the whole without the other part's nodes.  Value ids stay. */
#include "graph/ir/split_graph.h"

#include "graph/ir/op.h"
#include "graph/ir/rewrite.h"

typedef struct {
    const Graph *g;
    bool *known;  /* by value id: computed without the rest */
    bool *needed; /* by value id: an output depends on it */
    bool *handed; /* by value id: an output of the known part */
    int n_handed;
} Cut;

/* Does n belong to the known part? */
static bool split_graph_is_known(const Cut *c, const Node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (has_value(n->out[o]) && !shape_known(value(c->g, n->out[o])->shape))
            return false;
    for (int i = 0; i < n->n_in; i++)
        if (!c->known[n->in[i].i])
            return false;
    return true;
}

/* Makes v an output of the known part if that computes it. */
static void hand(Cut *c, ValueId v)
{
    if (!has_value(v) || !c->known[v.i] || value(c->g, v)->kind != V_TEMP || c->handed[v.i])
        return;
    c->handed[v.i] = true;
    c->n_handed++;
}

static bool is_needed(const Cut *c, const Node *n)
{
    bool any = n->op->flags & OPF_IMPURE;

    for (int o = 0; o < n->n_out; o++)
        any |= has_value(n->out[o]) && c->needed[n->out[o].i];
    return any;
}

static void find_handed(Cut *c)
{
    const Graph *g = c->g;

    for (int i = 0; i < g->n_output; i++) {
        c->needed[g->output[i].value.i] = true;
        hand(c, g->output[i].value);
    }
    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];

        if (!n->op || !is_needed(c, n))
            continue;
        for (int k = 0; k < n->n_in; k++) {
            c->needed[n->in[k].i] = true;
            if (!split_graph_is_known(c, n))
                hand(c, n->in[k]);
        }
    }
}

/* Removes the nodes of the other part, and all that no output needs. */
static Status split_graph_keep(Graph *part, const Cut *c, bool known)
{
    uint32_t *uses;

    part->n_update = 0;
    FOR_NODES(part, n)
        if (split_graph_is_known(c, c->g->node[n->index]) != known || !is_needed(c, c->g->node[n->index]))
            graph_remove(part, n);
    TRY(graph_sort(part));
    if (!(uses = graph_count_uses(part, part->arena)))
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < c->g->n_value; i++) {
        Value *v = part->value[i];

        if (v->kind == V_INPUT || uses[i] || (v->producer && v->producer->op))
            continue;
        v->kind = V_TEMP;
        v->producer = NULL;
        v->init = NULL;
        v->layout = LAYOUT_ROWS;
        v->trainable = v->transient = v->partial = false;
    }
    return part->status;
}

/* Replaces the known values in the rest by inputs, and removes the known part. */
static Status make_rest(Graph *rest, const Cut *c)
{
    const uint32_t n_value = rest->n_value;
    Arena *scratch = arena_create_beside(rest->arena);
    Status st = scratch ? rewrite_begin(rest, scratch) : FAIL_NOMEM();

    for (uint32_t i = 1; i < n_value && !st; i++) {
        const Value *v = rest->value[i];

        if (c->handed[i])
            graph_replace(rest, (ValueId){ i }, graph_add_input(rest, v->name, v->dtype, v->shape));
    }
    st = st ? st : rewrite_end(rest);
    rewrite_drop(rest);
    if (scratch)
        arena_free(scratch);
    TRY(st);
    return split_graph_keep(rest, c, false);
}

static Status split_graph_cut(Graph **known, Graph **rest, Cut *c)
{
    const Graph *g = c->g;
    int at = g->n_input;

    for (uint32_t i = 0; i < g->n_value; i++)
        c->known[i] = !i || g->value[i]->kind != V_TEMP;
    FOR_NODES(g, n) {
        const bool all = split_graph_is_known(c, n);

        for (int o = 0; o < n->n_out; o++)
            if (has_value(n->out[o]))
                c->known[n->out[o].i] = all;
    }
    find_handed(c);
    TRY(graph_clone(rest, g));
    TRY(make_rest(*rest, c));
    if (!c->n_handed)
        return ST_OK;
    TRY(graph_clone(known, g));
    (*known)->n_output = 0;
    for (uint32_t i = 1; i < g->n_value; i++)
        if (c->handed[i])
            graph_add_output(*known, value(*rest, (*rest)->input[at++])->name, (ValueId){ i });
    TRY((*known)->status);
    return split_graph_keep(*known, c, true);
}

Status graph_cut(Graph **known, Graph **rest, const Graph *g)
{
    Arena *a = arena_create_beside(g->arena);
    Cut c = { .g = g };
    Graph *one = NULL, *other = NULL;
    Status st;

    if (!a)
        return FAIL_NOMEM();
    c.known = ARENA_NEW(a, bool, g->n_value);
    c.needed = ARENA_NEW(a, bool, g->n_value);
    c.handed = ARENA_NEW(a, bool, g->n_value);
    st = c.known && c.needed && c.handed ? split_graph_cut(&one, &other, &c) : FAIL_NOMEM();
    arena_free(a);
    if (st) {
        graph_free(one);
        graph_free(other);
        return st;
    }
    *known = one;
    *rest = other;
    return ST_OK;
}
