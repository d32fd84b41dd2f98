/* One rewrite for all: a node's outputs are replaced as it is visited, and its readers, which come later, see that when
 * their turn comes. */
#include "graph/ir/lower.h"

#include "graph/ir/rewrite.h"

typedef Status (*Rule)(Graph *, Node *);

/* NULL: it stays. */
static Rule rule_of(const Lowering *how, const Node *n)
{
    return !n->op ? NULL : how->standard ? n->op->standard : n->op->lower;
}

static bool lower_is_read(const Node *n, const uint32_t *uses)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) && uses[n->out[i].i])
            return true;
    return false;
}

static bool any_to_lower(const Graph *g, const Lowering *how)
{
    for (uint32_t i = how->first; i < g->n_node; i++)
        if (rule_of(how, g->node[i]))
            return true;
    return false;
}

/* What it becomes is of the same part of a step, and has its name. */
static Status lower_lower(Graph *g, Node *n, const Lowering *how)
{
    const Rule rule = rule_of(how, n);
    const uint32_t before = g->n_node;

    rewrite_read(g, n);
    if (how->infer)
        TRY(node_infer(g, n));
    if (!rule || !node_inputs_known(g, n))
        return ST_OK;
    graph_begin_purpose(g, n->phase, n->name);
    TRY(rule(g, n));
    if (how->n_lowered)
        *how->n_lowered += g->n_node != before;
    return g->status;
}

static Status remove_unread(Graph *g, Arena *scratch, const Lowering *how)
{
    uint32_t *uses = graph_count_uses(g, scratch);

    if (!uses)
        return FAIL_NOMEM();
    for (int i = 0; i < how->n_held; i++)
        uses[how->held[i].i]++;
    for (uint32_t i = how->first; i < g->n_node; i++)
        if (rule_of(how, g->node[i]) && !lower_is_read(g->node[i], uses))
            graph_remove(g, g->node[i]);
    return g->status;
}

Status graph_lower(Graph *g, Arena *scratch, const Lowering *how)
{
    const Phase phase = g->phase;
    const char *purpose = g->purpose;

    if (!how->infer && !any_to_lower(g, how)) /* without a walk over what stands before: embedders ask node by node */
        return g->status;
    TRY(rewrite_begin(g, scratch));
    for (uint32_t i = how->first; i < g->n_node; i++)
        if (g->node[i]->op)
            TRY(lower_lower(g, g->node[i], how));
    graph_begin_purpose(g, phase, purpose);
    for (int i = 0; i < how->n_held; i++)
        how->held[i] = rewrite_in(g, how->held[i]);
    TRY(rewrite_end(g));
    return remove_unread(g, scratch, how);
}
