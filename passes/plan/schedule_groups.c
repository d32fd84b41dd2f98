/* Finds the nodes computed for the update of one state alone: the optimizer's arithmetic of a parameter, a running
 * statistic. */
#include "passes/plan/schedule_groups.h"

#include "graph/ir/op.h"

/* The group that node n may be in: its consumers' if they agree.  An update counts only if no node uses the output; the
 * first counts of several updates (an optimizer step in one node). */
static int common_owner(const Node *n, const uint32_t *first, const uint32_t *edge, const int *owner,
                        const int *update_of)
{
    int strong = NO_GROUP, weak = NO_GROUP;

    for (uint32_t e = first[n->index]; e < first[n->index + 1]; e++) {
        const int by = owner[edge[e]];

        if (by == NO_GROUP || (strong != NO_GROUP && by != strong))
            return NO_GROUP;
        strong = by;
    }
    for (int i = 0; i < n->n_out; i++) {
        int u = update_of[n->out[i].i];

        if (u == -2)
            return NO_GROUP;
        if (u >= 0 && (weak == NO_GROUP || u < weak))
            weak = u;
    }
    return strong != NO_GROUP ? strong : weak;
}

/* Does node n read a state that its group updates, or a value that its group computes? */
static bool touches_state(const Graph *g, const Node *n, const int *owner, const int *writer)
{
    const int own = owner[n->index];

    for (int i = 0; i < n->n_in; i++) {
        const Node *p = schedule_producer(g, n->in[i]);

        if (writer[n->in[i].i] == own || (p && owner[p->index] == own))
            return true;
    }
    return false;
}

/* Sets the group that computes the next value of each state. */
static void find_writers(int *writer, const Graph *g, const int *owner)
{
    for (int u = 0; u < g->n_update; u++) {
        const Node *p = schedule_producer(g, g->update[u].next);

        writer[g->update[u].state.i] = p ? owner[p->index] : NO_GROUP;
    }
}

Status schedule_groups(int **owner_out, int **writer_out, const Graph *g, const uint32_t *first, const uint32_t *edge,
                       Arena *a)
{
    const int n_replica = schedule_replicas(g);
    int *owner = ARENA_NEW(a, int, g->n_node), *writer = ARENA_NEW(a, int, g->n_value);
    int *update_of = ARENA_NEW(a, int, g->n_value); /* -1: no update; -2: an output of the graph */

    if (!update_of || !owner || !writer)
        return FAIL_NOMEM();
    for (uint32_t v = 0; v < g->n_value; v++)
        update_of[v] = writer[v] = NO_GROUP;
    for (int u = g->n_update - 1; u >= 0; u--)
        update_of[g->update[u].next.i] = u;
    for (int i = 0; i < g->n_output; i++)
        update_of[g->output[i].value.i] = -2;
    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];

        owner[i] = schedule_in_replica(n_replica, n) || n->op->flags & OPF_COLLECTIVE
                       ? NO_GROUP
                       : common_owner(n, first, edge, owner, update_of);
    }
    find_writers(writer, g, owner);
    /* A group keeps only the nodes that begin at its states: a gradient is computed for the update alone, yet belongs
     * to the backward pass. */
    for (uint32_t i = 0; i < g->n_node; i++)
        if (owner[i] != NO_GROUP && !touches_state(g, g->node[i], owner, writer))
            owner[i] = NO_GROUP;
    for (uint32_t i = g->n_node; i-- > 0;)
        for (uint32_t e = first[i]; e < first[i + 1] && owner[i] != NO_GROUP; e++)
            owner[i] = owner[edge[e]] == owner[i] ? owner[i] : NO_GROUP; /* a node outside uses it */
    find_writers(writer, g, owner);
    *owner_out = owner;
    *writer_out = writer;
    return ST_OK;
}
