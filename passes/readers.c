/* Lists of readers laid end to end, by value: counted, summed up, filled in. */
#include "passes/readers.h"

#include <string.h>

#include "graph/base/arena.h"
#include "graph/op.h"

Status readers_find(Readers *out, const Graph *g, Arena *a)
{
    uint32_t *first = ARENA_NEW(a, uint32_t, g->n_value + 1), *at = ARENA_NEW(a, uint32_t, g->n_value + 1);
    bool *output = ARENA_NEW(a, bool, g->n_value);
    Reader *list;

    if (!first || !at || !output)
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            first[n->in[i].i + 1] += has_value(n->in[i]);
    for (uint32_t i = 0; i < g->n_value; i++)
        first[i + 1] += first[i];
    if (!(list = ARENA_NEW(a, Reader, first[g->n_value])))
        return FAIL_NOMEM();
    memcpy(at, first, (g->n_value + 1) * sizeof *at);
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (has_value(n->in[i]))
                list[at[n->in[i].i]++] = (Reader){ n, i };
    for (int i = 0; i < g->n_output; i++)
        output[g->output[i].value.i] = true;
    *out = (Readers){ g, list, first, output };
    return ST_OK;
}

const Node *readers_only(const Readers *r, ValueId v)
{
    const Node *found = NULL;

    for (uint32_t i = r->first[v.i]; i < r->first[v.i + 1]; i++) {
        if (found && found != r->list[i].n)
            return NULL;
        found = r->list[i].n;
    }
    return r->output[v.i] ? NULL : found;
}

static ValueId redirected(const ValueId *by, uint32_t n, ValueId v)
{
    return v.i < n && has_value(by[v.i]) ? by[v.i] : v;
}

static bool makes(const Node *n, ValueId v)
{
    for (int o = 0; o < n->n_out; o++)
        if (has_value(v) && value_eq(n->out[o], v))
            return true;
    return false;
}

Status readers_redirect(Graph *g, const ValueId *by, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (has_value(by[i]) && g->value[i]->dtype && value(g, by[i])->dtype &&
            value(g, by[i])->dtype != g->value[i]->dtype)
            return FAIL(E_INTERNAL, "'%s' would be replaced by a value of another type, '%s'", g->value[i]->name,
                        value(g, by[i])->name);
    FOR_NODES(g, node)
        for (int i = 0; i < node->n_in; i++)
            if (!(node->in[i].i < n && makes(node, by[node->in[i].i])))
                node->in[i] = redirected(by, n, node->in[i]);
    for (int i = 0; i < g->n_output; i++)
        g->output[i].value = redirected(by, n, g->output[i].value);
    for (int i = 0; i < g->n_update; i++)
        g->update[i].next = redirected(by, n, g->update[i].next);
    return g->status;
}
