/* Scope: a hash table from the names of one body to their entries.  Open addressing, linear probing, no removal. */
#include <string.h>

#include "graph/onnx/importer.h"

/* The name's slot, or the empty one where it belongs. */
static size_t scope_slot_of(const Scope *s, const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    size_t i;

    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    for (i = h & (s->cap - 1); s->slot[i].name && strcmp(s->slot[i].name, name); i = (i + 1) & (s->cap - 1))
        ;
    return i;
}

ScopeEntry *scope_find(const Scope *s, const char *name)
{
    ScopeEntry *e = s->cap ? &s->slot[scope_slot_of(s, name)] : NULL;

    return e && e->name ? e : NULL;
}

static bool scope_grow(Scope *s)
{
    Scope old = *s;

    s->cap = old.cap ? old.cap * 2 : 64;
    if (!(s->slot = ARENA_NEW(s->arena, ScopeEntry, s->cap))) {
        *s = old;
        return false;
    }
    for (size_t i = 0; i < old.cap; i++)
        if (old.slot[i].name)
            s->slot[scope_slot_of(s, old.slot[i].name)] = old.slot[i];
    return true;
}

ScopeEntry *scope_add(Scope *s, const char *name)
{
    ScopeEntry *e;

    if (s->n * 2 >= s->cap && !scope_grow(s))
        return NULL;
    e = &s->slot[scope_slot_of(s, name)];
    if (!e->name) {
        *e = (ScopeEntry){ .name = name, .node = -1 };
        s->n++;
    }
    return e;
}

void scope_clear(Scope *s)
{
    if (s->cap)
        memset(s->slot, 0, s->cap * sizeof *s->slot);
    s->n = 0;
}

void entry_copy(ScopeEntry *to, const ScopeEntry *from)
{
    to->value = from->value;
    to->problem = from->problem;
    to->sequence = from->sequence;
    to->nothing = from->nothing;
    to->computed = from->computed;
}
