/* One rewrite for all: a node's outputs are replaced as it is visited, and its readers, which come later, see that when
 * their turn comes. */
#include "graph/lower.h"

#include "graph/rewrite.h"

static bool is_read(const Node *n, const uint32_t *uses)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) && uses[n->out[i].i])
            return true;
    return false;
}

static bool any_composite(const Graph *g, uint32_t first)
{
    for (uint32_t i = first; i < g->n_node; i++)
        if (g->node[i]->op && g->node[i]->op->lower)
            return true;
    return false;
}

/* What it becomes is of the same part of a step, and has its name. */
static Status lower(Graph *g, Node *n, bool infer, int *n_lowered)
{
    const uint32_t before = g->n_node;

    rewrite_read(g, n);
    if (infer)
        TRY(node_infer(g, n));
    if (!n->op->lower || !node_inputs_known(g, n))
        return ST_OK;
    graph_begin_purpose(g, n->phase, n->name);
    TRY(n->op->lower(g, n));
    if (n_lowered)
        *n_lowered += g->n_node != before;
    return g->status;
}

static Status remove_unread(Graph *g, uint32_t first, Arena *scratch, int n_held, const ValueId *held)
{
    uint32_t *uses = graph_count_uses(g, scratch);

    if (!uses)
        return FAIL_NOMEM();
    for (int i = 0; i < n_held; i++)
        uses[held[i].i]++;
    for (uint32_t i = first; i < g->n_node; i++)
        if (g->node[i]->op && g->node[i]->op->lower && !is_read(g->node[i], uses))
            graph_remove(g, g->node[i]);
    return g->status;
}

Status graph_lower(Graph *g, uint32_t first, bool infer, Arena *scratch, int n_held, ValueId *held, int *n_lowered)
{
    const Phase phase = g->phase;
    const char *purpose = g->purpose;

    if (!infer && !any_composite(g, first)) /* without a walk over what stands before: embedders ask node by node */
        return g->status;
    TRY(rewrite_begin(g, scratch));
    for (uint32_t i = first; i < g->n_node; i++)
        if (g->node[i]->op)
            TRY(lower(g, g->node[i], infer, n_lowered));
    graph_begin_purpose(g, phase, purpose);
    for (int i = 0; i < n_held; i++)
        held[i] = rewrite_in(g, held[i]);
    TRY(rewrite_end(g));
    return remove_unread(g, first, scratch, n_held, held);
}
