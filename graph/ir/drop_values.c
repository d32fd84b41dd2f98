/* Removal of dead values, so that tables by value id do not grow with nodes that were removed. */
#include "graph/ir/drop_values.h"

#include "graph/base/arena.h"
#include "graph/ir/name_table.h"
#include "graph/ir/op.h"

/* Replaces each id i by now[i]. */
static void rename_ids(Graph *g, const uint32_t *now)
{
    FOR_NODES(g, n) {
        for (int i = 0; i < n->n_in; i++)
            n->in[i].i = now[n->in[i].i];
        for (int i = 0; i < n->n_out; i++)
            n->out[i].i = now[n->out[i].i];
    }
    for (int i = 0; i < g->n_input; i++)
        g->input[i].i = now[g->input[i].i];
    for (int i = 0; i < g->n_output; i++)
        g->output[i].value.i = now[g->output[i].value.i];
    for (int i = 0; i < g->n_update; i++) {
        g->update[i].state.i = now[g->update[i].state.i];
        g->update[i].next.i = now[g->update[i].next.i];
    }
}

/* Keeps the living values in their order; now[i] receives the new id of value i. */
static Status keep_living(Graph *g, const uint32_t *uses, uint32_t *now)
{
    size_t n = 1;
    Value **kept;

    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];

        if (v->kind != V_TEMP || (v->producer && v->producer->op) || uses[i])
            now[i] = (uint32_t)n++;
    }
    if (n == g->n_value)
        return ST_OK;
    if (!(kept = ARENA_NEW(g->arena, Value *, n)))
        return FAIL_NOMEM();
    kept[0] = g->value[0];
    for (uint32_t i = 1; i < g->n_value; i++)
        if (now[i])
            kept[now[i]] = g->value[i];
    rename_ids(g, now);
    arena_give_back(g->arena, g->value, g->cap_value * sizeof *g->value);
    g->value = kept;
    g->cap_value = n;
    g->n_value = (uint32_t)n;
    names_rebuild(g);
    return g->status;
}

Status graph_drop_values(Graph *g)
{
    Arena *scratch = g->status ? NULL : arena_create_beside(g->arena);
    uint32_t *uses = scratch ? graph_count_uses(g, scratch) : NULL;
    uint32_t *now = uses ? ARENA_NEW(scratch, uint32_t, g->n_value) : NULL;
    Status st = g->status ? g->status : now ? keep_living(g, uses, now) : FAIL_NOMEM();

    arena_free(scratch);
    return st;
}
