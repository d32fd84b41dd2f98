/* A hash table of shapes: open addressing, linear probing, no removal. */
#include "graph/tensor/shape_table.h"

#include "graph/base/hash.h"

static const Shape **shape_table_slot_of(const ShapeTable *t, const Shape *s)
{
    uint64_t h = hash_int(HASH_BEGIN, s->rank);

    for (int i = 0; i < s->rank; i++)
        h = hash_int(h, s->dim[i]);
    h ^= h >> 32;
    while (t->slot[h & (t->cap - 1)] && !shape_eq(t->slot[h & (t->cap - 1)], s))
        h++;
    return &t->slot[h & (t->cap - 1)];
}

static bool shape_table_reserve(ShapeTable *t, Arena *a)
{
    const ShapeTable old = *t;

    if (t->n < t->cap / 4 * 3)
        return true;
    t->cap = old.cap ? old.cap * 2 : 16;
    if (!(t->slot = ARENA_NEW(a, const Shape *, t->cap))) {
        *t = old;
        return false;
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slot[i])
            *shape_table_slot_of(t, old.slot[i]) = old.slot[i];
    arena_give_back(a, old.slot, old.cap * sizeof *old.slot);
    return true;
}

const Shape *shapes_share(ShapeTable *t, Arena *a, const Shape *s)
{
    const Shape **slot;
    Shape *own;

    if (!shape_table_reserve(t, a))
        return NULL;
    slot = shape_table_slot_of(t, s);
    if (!*slot && (own = arena_memdup(a, s, sizeof *s))) {
        *slot = own;
        t->n++;
    }
    return *slot;
}
