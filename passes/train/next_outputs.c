/* Converts updates of states into outputs named STATE.next, and such outputs back into updates. */
#include "passes/train/next_outputs.h"

#include <string.h>

#include "passes/pass.h"

/* The output's name; NULL: no memory. */
static const char *next_name(Graph *g, ValueId state)
{
    const char *name = arena_printf(g->arena, "%s.next", value(g, state)->name);

    if (!name)
        graph_fail_nomem(g);
    return name;
}

Status next_outputs_add(Graph *g)
{
    for (int i = 0; i < g->n_update && !g->status; i++) {
        const char *name = next_name(g, g->update[i].state);

        if (name)
            graph_add_output(g, name, g->update[i].next);
    }
    return g->status;
}

Status next_outputs_to_updates(Graph *g)
{
    for (uint32_t i = 1; i < g->n_value && !g->status; i++) {
        const char *name = g->value[i]->kind == V_STATE ? next_name(g, (ValueId){ i }) : NULL;
        const ValueId next = name ? graph_output(g, name) : NO_VALUE;

        if (has_value(next))
            graph_add_update(g, (ValueId){ i }, next);
    }
    return g->status;
}

void next_outputs_drop_others(Graph *g)
{
    for (int i = g->n_output - 1; i >= 0; i--)
        if (strcmp(g->output[i].name, OUT_LOSS))
            graph_remove_output(g, g->output[i].name);
}
