/* Finds the nodes computed for the update of one state alone: the optimizer's arithmetic of a parameter, a running
 * statistic. */
#include "passes/plan/schedule_groups.h"

#include "graph/ir/op.h"

typedef struct {
    const Graph *g;
    int n_replica;
    const uint32_t *first, *edge;
    int *owner, *writer;
} Groups;

/* The group that node n may be in: its consumers' if they agree.  An update counts only if no node uses the output; the
 * first counts of several updates (an optimizer step in one node). */
static int common_owner(const Groups *s, const Node *n, const int *update_of)
{
    int strong = NO_GROUP, weak = NO_GROUP;

    if (schedule_in_replica(s->n_replica, n) || n->op->flags & OPF_COLLECTIVE)
        return NO_GROUP;
    for (uint32_t e = s->first[n->index]; e < s->first[n->index + 1]; e++) {
        int owner = s->owner[s->edge[e]];

        if (owner == NO_GROUP || (strong != NO_GROUP && owner != strong))
            return NO_GROUP;
        strong = owner;
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
static bool touches_state(const Groups *s, const Node *n)
{
    int own = s->owner[n->index];

    for (int i = 0; i < n->n_in; i++) {
        const Node *p = schedule_producer(s->g, n->in[i]);

        if (s->writer[n->in[i].i] == own || (p && s->owner[p->index] == own))
            return true;
    }
    return false;
}

static bool used_outside(const Groups *s, const Node *n)
{
    for (uint32_t e = s->first[n->index]; e < s->first[n->index + 1]; e++)
        if (s->owner[s->edge[e]] != s->owner[n->index])
            return true;
    return false;
}

/* Keeps in a group only the nodes that begin at its states: a gradient is computed for the update alone, yet belongs to
 * the backward pass. */
static void trim(Groups *s)
{
    for (uint32_t i = 0; i < s->g->n_node; i++)
        if (s->owner[i] != NO_GROUP && !touches_state(s, s->g->node[i]))
            s->owner[i] = NO_GROUP;
    for (uint32_t i = s->g->n_node; i-- > 0;)
        if (s->owner[i] != NO_GROUP && used_outside(s, s->g->node[i]))
            s->owner[i] = NO_GROUP;
}

/* Sets the group that computes the next value of each state. */
static void find_writers(Groups *s)
{
    for (int u = 0; u < s->g->n_update; u++) {
        const Node *p = schedule_producer(s->g, s->g->update[u].next);

        s->writer[s->g->update[u].state.i] = p ? s->owner[p->index] : NO_GROUP;
    }
}

Status schedule_groups(int **owner, int **writer, const Graph *g, const uint32_t *first, const uint32_t *edge, Arena *a)
{
    Groups s = { g, schedule_replicas(g), first, edge, ARENA_NEW(a, int, g->n_node), ARENA_NEW(a, int, g->n_value) };
    int *update_of = ARENA_NEW(a, int, g->n_value); /* -1: no update; -2: an output of the graph */

    if (!update_of || !s.owner || !s.writer)
        return FAIL_NOMEM();
    for (uint32_t v = 0; v < g->n_value; v++)
        update_of[v] = s.writer[v] = NO_GROUP;
    for (int u = g->n_update - 1; u >= 0; u--)
        update_of[g->update[u].next.i] = u;
    for (int i = 0; i < g->n_output; i++)
        update_of[g->output[i].value.i] = -2;
    for (uint32_t i = g->n_node; i-- > 0;)
        s.owner[i] = common_owner(&s, g->node[i], update_of);
    find_writers(&s);
    trim(&s);
    find_writers(&s);
    *owner = s.owner;
    *writer = s.writer;
    return ST_OK;
}
