/* The shapes of a graph's values: of as many as have the same, one is stored.  Open addressing, linear probing; none is
 * removed before the graph. */
#include "graph/graph.h"

#include "graph/base/hash.h"

struct ShapeTable {
    const Shape **slot;
    uint32_t n, cap;
};

static const Shape **slot_of(const struct ShapeTable *t, const Shape *s)
{
    uint64_t h = hash_int(HASH_BEGIN, s->rank);

    for (int i = 0; i < s->rank; i++)
        h = hash_int(h, s->dim[i]);
    h ^= h >> 32;
    while (t->slot[h & (t->cap - 1)] && !shape_eq(t->slot[h & (t->cap - 1)], s))
        h++;
    return &t->slot[h & (t->cap - 1)];
}

static bool reserve(Graph *g)
{
    struct ShapeTable *t = g->shapes, old = *t;

    if (t->n < t->cap / 4 * 3)
        return true;
    t->cap = old.cap ? old.cap * 2 : 16;
    if (!(t->slot = ARENA_NEW(g->arena, const Shape *, t->cap))) {
        *t = old;
        return false;
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slot[i])
            *slot_of(t, old.slot[i]) = old.slot[i];
    arena_give_back(g->arena, old.slot, old.cap * sizeof *old.slot);
    return true;
}

static const Shape *shared(Graph *g, const Shape *s)
{
    const Shape **slot;
    Shape *own;

    if (!g->shapes && !(g->shapes = ARENA_NEW(g->arena, struct ShapeTable, 1)))
        return NULL;
    if (!reserve(g))
        return NULL;
    slot = slot_of(g->shapes, s);
    if (!*slot && (own = ARENA_NEW(g->arena, Shape, 1))) {
        *own = *s;
        *slot = own;
        g->shapes->n++;
    }
    return *slot;
}

void value_set_shape(Graph *g, Value *v, const Shape *s)
{
    static const Shape unknown = { .rank = -1 };

    if (!(v->shape = shared(g, s))) {
        v->shape = &unknown;
        graph_fail_nomem(g);
    }
}
