/* Hash tables of pointers.  A slot keeps its item's hash, so that growing compares nothing. */
#include "graph/base/hash_table.h"

static uint32_t first_slot(const HashTable *t, uint64_t hash) { return (uint32_t)(hash ^ hash >> 32) & (t->cap - 1); }

bool hash_table_reserve(HashTable *t, Arena *a)
{
    const HashTable old = *t;

    if (t->n < t->cap / 4 * 3)
        return true;
    *t = (HashTable){ .cap = old.cap ? old.cap * 2 : 16 };
    if (!(t->slot = ARENA_NEW(a, struct HashSlot, t->cap))) {
        *t = old;
        return false;
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slot[i].item)
            hash_table_add(t, old.slot[i].hash, old.slot[i].item);
    arena_give_back(a, old.slot, old.cap * sizeof *old.slot);
    return true;
}

const void *hash_table_find(const HashTable *t, uint64_t hash, HashSame *same, const void *key)
{
    for (uint32_t i = first_slot(t, hash); t->slot[i].item; i = (i + 1) & (t->cap - 1))
        if (t->slot[i].hash == hash && same(t->slot[i].item, key))
            return t->slot[i].item;
    return NULL;
}

void hash_table_add(HashTable *t, uint64_t hash, const void *item)
{
    uint32_t i = first_slot(t, hash);

    while (t->slot[i].item)
        i = (i + 1) & (t->cap - 1);
    t->slot[i] = (struct HashSlot){ item, hash };
    t->n++;
}
