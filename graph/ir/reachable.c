/* Reachability by a depth-first search from reader to producers. */
#include "graph/ir/reachable.h"

#include "graph/ir/readers.h"

void reach_add_edge(Reachability *p, const Node *from, const Node *reader)
{
    if (reader->index < from->index && reader->index < p->ordered)
        p->ordered = reader->index;
}

void reach_sorted(Reachability *p) { p->ordered = UINT32_MAX; }

Status reach_begin(Reachability *out, const Graph *g, Arena *a)
{
    *out = (Reachability){ .g = g,
                           .seen = ARENA_NEW(a, uint32_t, g->n_node),
                           .stack = ARENA_NEW(a, uint32_t, g->n_node),
                           .ordered = UINT32_MAX };
    if (!out->seen || !out->stack)
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++) {
            const Node *by = maker(g, n->in[i]);

            if (by)
                reach_add_edge(out, by, n);
        }
    return ST_OK;
}

/* Pushes the producers of n's inputs that stand at `first` or later. */
static void reachable_expand(Reachability *p, const Node *n, uint32_t first, uint32_t *n_stack)
{
    for (int i = 0; i < n->n_in; i++) {
        const Node *by = maker(p->g, n->in[i]);

        if (by && by->index >= first && p->seen[by->index] != p->walk) {
            p->seen[by->index] = p->walk;
            p->stack[(*n_stack)++] = by->index;
        }
    }
}

bool reach_path_exists(Reachability *p, const Node *from, const Node *to)
{
    const uint32_t first = from->index < p->ordered ? from->index : p->ordered;
    uint32_t n_stack = 0;

    p->walk++;
    reachable_expand(p, to, first, &n_stack);
    while (n_stack && p->seen[from->index] != p->walk)
        reachable_expand(p, p->g->node[p->stack[--n_stack]], first, &n_stack);
    return p->seen[from->index] == p->walk;
}

static bool waits(Reachability *p, const Node *n, ValueId v)
{
    const Node *by = maker(p->g, v);

    return !by || reach_path_exists(p, by, n);
}

bool reach_is_available(Reachability *p, ValueId v, const Node *n)
{
    const Node *by = maker(p->g, v);
    bool there = by && by != n;

    if (waits(p, n, v))
        return true;
    for (int i = 0; there && i < by->n_in; i++)
        there = waits(p, n, by->in[i]);
    return there;
}
