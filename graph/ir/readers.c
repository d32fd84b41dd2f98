/* Lists of readers by value, as one array: uses are counted, the counts summed up to offsets, the lists filled in. */
#include "graph/ir/readers.h"

#include "graph/base/arena.h"

Status uses_find(Uses *out, const Graph *g, Arena *a)
{
    uint32_t *first = ARENA_NEW(a, uint32_t, g->n_value + 1), *at, *ends = ARENA_NEW(a, uint32_t, g->n_value);
    Reader *list;

    if (!first || !ends)
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            first[n->in[i].i + 1] += has_value(n->in[i]);
    for (uint32_t i = 0; i < g->n_value; i++)
        first[i + 1] += first[i];
    for (int i = 0; i < g->n_output; i++)
        ends[g->output[i].value.i]++;
    for (int i = 0; i < g->n_update; i++)
        ends[g->update[i].next.i]++;
    list = ARENA_NEW(a, Reader, first[g->n_value]);
    at = arena_memdup(a, first, (g->n_value + 1) * sizeof *at);
    if (!list || !at)
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (has_value(n->in[i]))
                list[at[n->in[i].i]++] = (Reader){ n, i };
    arena_give_back(a, at, (g->n_value + 1) * sizeof *at);
    *out = (Uses){ g, g->n_value, list, first, ends };
    return ST_OK;
}

void uses_forget(Uses *u, Arena *a)
{
    if (!u->g)
        return;
    arena_give_back(a, u->reader, u->first[u->n_value] * sizeof *u->reader);
    arena_give_back(a, u->first, (u->n_value + 1) * sizeof *u->first);
    arena_give_back(a, u->ends, u->n_value * sizeof *u->ends);
    *u = (Uses){ 0 };
}

uint32_t uses_count(const Uses *u, ValueId v)
{
    return has_value(v) && v.i < u->n_value ? u->first[v.i + 1] - u->first[v.i] + u->ends[v.i] : 0;
}

Node *only_reader(const Uses *u, ValueId v)
{
    return uses_count(u, v) == 1 && !u->ends[v.i] ? u->reader[u->first[v.i]].n : NULL;
}

Node *inner_maker(const Uses *u, ValueId v) { return only_reader(u, v) ? maker(u->g, v) : NULL; }

ValueId skip_views(const Graph *g, ValueId v)
{
    const int64_t n = shape_columns(value(g, v)->shape);
    const Node *p;

    while (n >= 0 && value(g, v)->layout == LAYOUT_ROWS && is_view(p = maker(g, v)) &&
           shape_columns(value(g, p->in[0])->shape) == n)
        v = p->in[0];
    return v;
}

int const_input(const Graph *g, const Node *n, double *number)
{
    for (int i = n->n_in == 2; i >= 0 && n->n_in == 2; i--)
        if (value_const_number(g, n->in[i], number))
            return i;
    return -1;
}
