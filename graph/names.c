/* The table of a graph's names: open addressing, linear probing; names are never removed (a renamed value's old name
 * stays taken). */
#include "graph/names.h"

#include <string.h>

struct NameTable {
    struct {
        const char *name;
        uint32_t id, next_suffix;
    } * slot;
    uint32_t n, cap;
};

static uint32_t hash_name(const char *s)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

static uint32_t slot_of(const struct NameTable *t, const char *name)
{
    uint32_t i = hash_name(name) & (t->cap - 1);

    while (t->slot[i].name && strcmp(t->slot[i].name, name))
        i = (i + 1) & (t->cap - 1);
    return i;
}

struct NameTable *names_create(Arena *a) { return ARENA_NEW(a, struct NameTable, 1); }

static bool reserve(Graph *g)
{
    struct NameTable *t = g->names, old = *t;

    if (t->n < t->cap / 4 * 3)
        return true;
    t->cap = old.cap ? old.cap * 2 : 16;
    if (!(t->slot = arena_array(g->arena, sizeof *t->slot, t->cap))) {
        *t = old;
        return false;
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slot[i].name)
            t->slot[slot_of(t, old.slot[i].name)] = old.slot[i];
    arena_give_back(g->arena, old.slot, old.cap * sizeof *old.slot);
    return true;
}

void names_put(Graph *g, const char *name, uint32_t id)
{
    uint32_t i;

    if (!reserve(g)) {
        graph_fail_nomem(g);
        return;
    }
    i = slot_of(g->names, name);
    if (!g->names->slot[i].name)
        g->names->n++;
    g->names->slot[i].name = name;
    g->names->slot[i].id = id;
}

void names_rebuild(Graph *g)
{
    struct NameTable *t = g->names;

    arena_give_back(g->arena, t->slot, t->cap * sizeof *t->slot);
    *t = (struct NameTable){ 0 };
    for (uint32_t i = 1; i < g->n_value; i++)
        names_put(g, g->value[i]->name, i);
}

ValueId graph_find(const Graph *g, const char *name)
{
    uint32_t i;

    if (!g->names->cap)
        return NO_VALUE;
    i = slot_of(g->names, name);
    if (!g->names->slot[i].name || !g->names->slot[i].id || strcmp(g->value[g->names->slot[i].id]->name, name))
        return NO_VALUE;
    return (ValueId){ g->names->slot[i].id };
}

static bool is_taken(const Graph *g, const char *name)
{
    return g->names->cap && g->names->slot[slot_of(g->names, name)].name;
}

bool names_given_up(const Graph *g, const char *name) { return is_taken(g, name) && !has_value(graph_find(g, name)); }

/* The table remembers where the search for a free suffix ended: a name given a million times is not a million
 * searches. */
const char *graph_unique_name(Graph *g, const char *base)
{
    const char *name = arena_strdup(g->arena, *base ? base : "value");
    uint32_t *suffix;

    if (name && is_taken(g, name)) {
        suffix = &g->names->slot[slot_of(g->names, name)].next_suffix;
        do
            name = arena_printf(g->arena, "%s_%u", *base ? base : "value", ++*suffix);
        while (name && is_taken(g, name));
    }
    if (!name)
        graph_fail_nomem(g);
    return name ? name : "";
}
