/* A hash table of shapes. */
#include "graph/tensor/shape_table.h"

static bool is_shape(const void *item, const void *key) { return shape_eq(item, key); }

const Shape *shapes_share(HashTable *t, Arena *a, const Shape *s)
{
    uint64_t h = hash_int(HASH_BEGIN, s->rank);
    const Shape *own;

    for (int i = 0; i < s->rank; i++)
        h = hash_int(h, s->dim[i]);
    if (!hash_table_reserve(t, a))
        return NULL;
    if (!(own = hash_table_find(t, h, is_shape, s)) && (own = arena_memdup(a, s, sizeof *s)))
        hash_table_add(t, h, own);
    return own;
}
