/* The table of a graph's names: open addressing, linear probing.  A slot holds the id of the value with the name or,
 * for the few names that need more data, the number of a note.  Names are never removed: a renamed value's old name
 * stays taken. */
#include "graph/ir/name_table.h"

#include <string.h>

typedef struct {
    const char *name;     /* the retired name; NULL: the value's present name */
    uint32_t id;          /* the value */
    uint32_t next_suffix; /* the last suffix that graph_unique_name gave */
} NameNote;

#define NOTED 0x80000000u /* bit of a slot: the rest is the number of a note, not the id of a value; slot 0: empty */

struct NameTable {
    uint32_t *slot;
    uint32_t n, cap;
    NameNote *note;
    size_t n_note, cap_note;
};

static NameNote *note_in(const struct NameTable *t, uint32_t slot)
{
    return slot & NOTED ? &t->note[slot & ~NOTED] : NULL;
}

static uint32_t id_in(const struct NameTable *t, uint32_t slot) { return slot & NOTED ? note_in(t, slot)->id : slot; }

static const char *name_of(const Graph *g, uint32_t slot)
{
    const NameNote *note = note_in(g->names, slot);

    return note && note->name ? note->name : g->value[id_in(g->names, slot)]->name;
}

static uint32_t *name_table_slot_of(const Graph *g, const char *name)
{
    const struct NameTable *t = g->names;
    uint32_t h = 2166136261u, i; /* FNV-1a */

    for (const char *s = name; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    i = h & (t->cap - 1);
    while (t->slot[i] && strcmp(name_of(g, t->slot[i]), name))
        i = (i + 1) & (t->cap - 1);
    return &t->slot[i];
}

struct NameTable *names_create(Arena *a) { return ARENA_NEW(a, struct NameTable, 1); }

static bool name_table_reserve(Graph *g)
{
    struct NameTable *t = g->names, old = *t;

    if (t->n < t->cap / 4 * 3)
        return true;
    t->cap = old.cap ? old.cap * 2 : 16;
    if (!(t->slot = ARENA_NEW(g->arena, uint32_t, t->cap))) {
        *t = old;
        return false;
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slot[i])
            *name_table_slot_of(g, name_of(g, old.slot[i])) = old.slot[i];
    arena_give_back(g->arena, old.slot, old.cap * sizeof *old.slot);
    return true;
}

/* The note of a name in the table, made if there is none; NULL: out of memory. */
static NameNote *note_of(Graph *g, uint32_t *slot)
{
    struct NameTable *t = g->names;
    NameNote *grown;

    if (*slot & NOTED)
        return note_in(t, *slot);
    if (!(grown = arena_grow(g->arena, t->note, sizeof *t->note, t->n_note, &t->cap_note))) {
        graph_fail_nomem(g);
        return NULL;
    }
    t->note = grown;
    t->note[t->n_note] = (NameNote){ .id = *slot };
    *slot = NOTED | (uint32_t)t->n_note++;
    return note_in(t, *slot);
}

void names_put(Graph *g, uint32_t id)
{
    uint32_t *slot;
    NameNote *note;

    if (!name_table_reserve(g)) {
        graph_fail_nomem(g);
        return;
    }
    slot = name_table_slot_of(g, g->value[id]->name);
    if ((note = note_in(g->names, *slot))) {
        note->id = id;
        note->name = NULL;
        return;
    }
    g->names->n += !*slot;
    *slot = id;
}

void names_retire(Graph *g, uint32_t id)
{
    const char *name = g->value[id]->name;
    uint32_t *slot = g->names->cap ? name_table_slot_of(g, name) : NULL;
    NameNote *note = slot && *slot && id_in(g->names, *slot) == id ? note_of(g, slot) : NULL;

    if (note)
        note->name = name;
}

void names_rebuild(Graph *g)
{
    struct NameTable *t = g->names;

    arena_give_back(g->arena, t->slot, t->cap * sizeof *t->slot);
    arena_give_back(g->arena, t->note, t->cap_note * sizeof *t->note);
    *t = (struct NameTable){ 0 };
    for (uint32_t i = 1; i < g->n_value; i++)
        names_put(g, i);
}

ValueId graph_find(const Graph *g, const char *name)
{
    const uint32_t slot = g->names->cap ? *name_table_slot_of(g, name) : 0;
    const NameNote *note = note_in(g->names, slot);

    return note && note->name ? NO_VALUE : (ValueId){ id_in(g->names, slot) };
}

static bool is_taken(const Graph *g, const char *name) { return g->names->cap && *name_table_slot_of(g, name); }

bool names_is_retired(const Graph *g, const char *name) { return is_taken(g, name) && !has_value(graph_find(g, name)); }

/* A note remembers the last suffix, so giving one name a million times does not search a million suffixes each time. */
const char *graph_unique_name(Graph *g, const char *base)
{
    const char *given = *base ? base : "value", *name = arena_strdup(g->arena, given);

    if (name && is_taken(g, name)) {
        NameNote *note = note_of(g, name_table_slot_of(g, given));

        do
            name = note ? arena_printf(g->arena, "%s_%u", given, ++note->next_suffix) : NULL;
        while (name && is_taken(g, name));
    }
    if (!name)
        graph_fail_nomem(g);
    return name ? name : "";
}
