/* The table of a graph's names: open addressing, linear probing.  A slot holds a value, whose name it is; what else is
 * to be known of a name, which is rare, stands beside.  Names are never removed: a renamed value's old name stays
 * taken. */
#include "graph/names.h"

#include <string.h>

typedef struct {
    const char *name;     /* that its value has no more; NULL: it has */
    uint32_t next_suffix; /* where the search for a free one ended */
} NameNote;

typedef struct {
    uint32_t id, note; /* both 0: empty */
} NameSlot;

struct NameTable {
    NameSlot *slot;
    uint32_t n, cap;
    NameNote *note; /* [0] is none */
    size_t n_note, cap_note;
};

static uint32_t hash_name(const char *s)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

static const char *name_of(const Graph *g, NameSlot s)
{
    const NameNote *note = s.note ? &g->names->note[s.note] : NULL;

    return note && note->name ? note->name : g->value[s.id]->name;
}

static NameSlot *slot_of(const Graph *g, const char *name)
{
    const struct NameTable *t = g->names;
    uint32_t i = hash_name(name) & (t->cap - 1);

    while ((t->slot[i].id || t->slot[i].note) && strcmp(name_of(g, t->slot[i]), name))
        i = (i + 1) & (t->cap - 1);
    return &t->slot[i];
}

struct NameTable *names_create(Arena *a) { return ARENA_NEW(a, struct NameTable, 1); }

static bool reserve(Graph *g)
{
    struct NameTable *t = g->names, old = *t;

    if (t->n < t->cap / 4 * 3)
        return true;
    t->cap = old.cap ? old.cap * 2 : 16;
    if (!(t->slot = ARENA_NEW(g->arena, NameSlot, t->cap))) {
        *t = old;
        return false;
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slot[i].id || old.slot[i].note)
            *slot_of(g, name_of(g, old.slot[i])) = old.slot[i];
    arena_give_back(g->arena, old.slot, old.cap * sizeof *old.slot);
    return true;
}

/* What else is known of a name that stands in the table; NULL: out of memory. */
static NameNote *note_of(Graph *g, NameSlot *s)
{
    struct NameTable *t = g->names;
    NameNote *grown;

    if (s->note)
        return &t->note[s->note];
    if (!(grown = arena_grow(g->arena, t->note, sizeof *t->note, t->n_note, &t->cap_note))) {
        graph_fail_nomem(g);
        return NULL;
    }
    t->note = grown;
    t->n_note += !t->n_note;
    t->note[t->n_note] = (NameNote){ 0 };
    s->note = (uint32_t)t->n_note++;
    return &t->note[s->note];
}

void names_put(Graph *g, uint32_t id)
{
    NameSlot *s;

    if (!reserve(g)) {
        graph_fail_nomem(g);
        return;
    }
    s = slot_of(g, g->value[id]->name);
    g->names->n += !s->id && !s->note;
    s->id = id;
    if (s->note)
        g->names->note[s->note].name = NULL;
}

void names_give_up(Graph *g, uint32_t id)
{
    const char *name = g->value[id]->name;
    NameSlot *s = g->names->cap ? slot_of(g, name) : NULL;
    NameNote *note = s && s->id == id ? note_of(g, s) : NULL;

    if (note)
        note->name = name;
}

void names_rebuild(Graph *g)
{
    struct NameTable *t = g->names;

    arena_give_back(g->arena, t->slot, t->cap * sizeof *t->slot);
    *t = (struct NameTable){ 0 };
    for (uint32_t i = 1; i < g->n_value; i++)
        names_put(g, i);
}

/* Of a value that has it still; NULL: none. */
static const NameSlot *find(const Graph *g, const char *name)
{
    const NameSlot *s = g->names->cap ? slot_of(g, name) : NULL;

    return s && s->id && !(s->note && g->names->note[s->note].name) ? s : NULL;
}

ValueId graph_find(const Graph *g, const char *name)
{
    const NameSlot *s = find(g, name);

    return s ? (ValueId){ s->id } : NO_VALUE;
}

static bool is_taken(const Graph *g, const char *name)
{
    const NameSlot *s = g->names->cap ? slot_of(g, name) : NULL;

    return s && (s->id || s->note);
}

bool names_given_up(const Graph *g, const char *name) { return is_taken(g, name) && !find(g, name); }

/* The table remembers where the search for a free suffix ended: a name given a million times is not a million
 * searches. */
const char *graph_unique_name(Graph *g, const char *base)
{
    const char *given = *base ? base : "value", *name = arena_strdup(g->arena, given);

    if (name && is_taken(g, name)) {
        NameNote *note = note_of(g, slot_of(g, given));

        do
            name = note ? arena_printf(g->arena, "%s_%u", given, ++note->next_suffix) : NULL;
        while (name && is_taken(g, name));
    }
    if (!name)
        graph_fail_nomem(g);
    return name ? name : "";
}
