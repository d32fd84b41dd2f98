/* Copies of all constants and nodes of one graph in another, over the values that replace its inputs. */
#include "graph/ir/inline_graph.h"

#include <string.h>

#include "graph/base/hash_table.h"

/* The names of nodes, which runtimes want to be different. */
typedef struct {
    HashTable table;
    Arena *arena;
} NodeNames;

static bool same_name(const void *item, const void *key) { return !strcmp(item, key); }

/* Adds a name; false: it is there, or there is no memory. */
static bool add_node_name(NodeNames *names, Graph *g, const char *name)
{
    const uint64_t hash = hash_text(HASH_BEGIN, name);

    if (!hash_table_reserve(&names->table, names->arena)) {
        graph_fail_nomem(g);
        return false;
    }
    if (hash_table_find(&names->table, hash, same_name, name))
        return false;
    hash_table_add(&names->table, hash, name);
    return true;
}

/* The node's name, or if it is taken with the prefix. */
static const char *free_node_name(NodeNames *names, Graph *g, const char *name, const char *prefix)
{
    if (add_node_name(names, g, name) || g->status)
        return name;
    if (!(name = arena_printf(g->arena, "%s%s", prefix, name)))
        graph_fail_nomem(g);
    else
        (void)add_node_name(names, g, name);
    return name;
}

static const char *free_name(Graph *g, const char *name, const char *prefix)
{
    const char *made = has_value(graph_find(g, name)) ? arena_printf(g->arena, "%s%s", prefix, name) : name;

    if (!made)
        graph_fail_nomem(g);
    return made ? made : name;
}

static ValueId join_const(Graph *g, const Value *from, const char *prefix)
{
    const ValueId v = graph_add_value(g, V_CONST, free_name(g, from->name, prefix), from->dtype, from->shape);
    Value *copy;

    if (!has_value(v))
        return v;
    copy = value(g, v);
    copy->init = from->init;
    copy->origin = from->origin;
    copy->evidence = from->evidence;
    copy->folded_from = from->folded_from ? arena_strdup(g->arena, from->folded_from) : NULL;
    copy->next = from->next ? arena_strdup(g->arena, from->next) : NULL;
    if ((from->folded_from && !copy->folded_from) || (from->next && !copy->next))
        graph_fail_nomem(g);
    return v;
}

static void join_node(Graph *g, const Graph *from, const Node *n, ValueId *is, const char *prefix, NodeNames *taken)
{
    Arena *scratch = taken->arena;
    const char *name = free_node_name(taken, g, n->name, prefix);
    ValueId *in = ARENA_NEW(scratch, ValueId, n->n_in);
    const char **names = ARENA_NEW(scratch, const char *, n->n_out);
    Node *made;

    if (!in || !names)
        graph_fail_nomem(g);
    for (int i = 0; !g->status && i < n->n_in; i++)
        in[i] = is[n->in[i].i];
    for (int i = 0; !g->status && i < n->n_out; i++)
        names[i] = has_value(n->out[i]) ? free_name(g, value(from, n->out[i])->name, prefix) : "";
    if (g->status || !(made = graph_add_node(g, n->op, name, NULL, n->n_in, in, n->n_out, names)))
        return;
    node_copy_attrs(g, made, n);
    made->lost_detach = n->lost_detach;
    for (int i = 0; i < n->n_out; i++)
        is[n->out[i].i] = made->out[i];
    is[0] = NO_VALUE;
}

Status graph_join(Graph *g, const Graph *from, ValueId *is, const char *prefix, Phase phase)
{
    Arena *scratch = arena_create_beside(g->arena);
    NodeNames taken = { .arena = scratch };

    if (!scratch || !arena_hold(g->arena, from->arena))
        graph_fail_nomem(g);
    for (uint32_t i = 1; i < from->n_value && !g->status; i++)
        if (from->value[i]->kind == V_CONST)
            is[i] = join_const(g, from->value[i], prefix);
    for (uint32_t i = 0; i < g->n_node && !g->status; i++)
        (void)add_node_name(&taken, g, g->node[i]->name);
    graph_begin_purpose(g, phase, NULL);
    FOR_NODES(from, n)
        join_node(g, from, n, is, prefix, &taken);
    graph_begin_purpose(g, PHASE_NONE, NULL);
    arena_free(scratch);
    return g->status;
}
