/* Lowering in one rewrite: a node's outputs are replaced when it is visited; its readers, which come later, apply the
 * replacement when they are visited. */
#include "graph/ir/lower.h"

#include "graph/ir/rewrite.h"

typedef Status (*Rule)(Graph *, Node *);

/* The rule that lowers n; NULL: there is none. */
static Rule rule_of(const Lowering *how, const Node *n)
{
    return !n->op ? NULL : how->standard ? n->op->standard : n->op->lower;
}

static bool lower_is_used(const Node *n, const uint32_t *uses)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i) && uses[n->out[i].i])
            return true;
    return false;
}

/* Lowers n into nodes with its phase and its name. */
static Status lower_node(Graph *g, Node *n, const Lowering *how)
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

Status graph_lower(Graph *g, Arena *scratch, const Lowering *how)
{
    const Phase phase = g->phase;
    const char *purpose = g->purpose;
    bool any = how->infer;
    uint32_t *uses;

    for (uint32_t i = how->first; !any && i < g->n_node; i++)
        any = rule_of(how, g->node[i]) != NULL;
    if (!any) /* then no walk over the nodes before how->first: embedders' gradients lower node by node */
        return g->status;
    TRY(rewrite_begin(g, scratch));
    for (uint32_t i = how->first; i < g->n_node; i++)
        if (g->node[i]->op)
            TRY(lower_node(g, g->node[i], how));
    graph_begin_purpose(g, phase, purpose);
    for (int i = 0; i < how->n_held; i++)
        how->held[i] = rewrite_in(g, how->held[i]);
    TRY(rewrite_end(g));
    if (!(uses = graph_count_uses(g, scratch)))
        return FAIL_NOMEM();
    for (int i = 0; i < how->n_held; i++)
        uses[how->held[i].i]++;
    for (uint32_t i = how->first; i < g->n_node; i++)
        if (rule_of(how, g->node[i]) && !lower_is_used(g->node[i], uses))
            graph_remove(g, g->node[i]);
    return g->status;
}
