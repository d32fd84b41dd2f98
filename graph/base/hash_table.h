/* Hash tables of pointers, for things that are stored once each: open addressing, linear probing, no removal. */
#ifndef DPX_BASE_HASH_TABLE_H
#define DPX_BASE_HASH_TABLE_H

#include "graph/base/arena.h"
#include "graph/base/hash.h"

typedef struct {
    struct HashSlot {
        const void *item; /* NULL: the slot is free */
        uint64_t hash;
    } * slot;
    uint32_t n, cap;
} HashTable; /* { 0 }: empty */

/* Is the item equal to the key? */
typedef bool HashSame(const void *item, const void *key);

/* Makes room for one more item; always to be called with the same arena, which owns the table.  false: out of memory,
 * and the table is as before. */
bool hash_table_reserve(HashTable *t, Arena *a);
/* The item with that hash that equals the key; NULL: there is none.  The table has room. */
const void *hash_table_find(const HashTable *t, uint64_t hash, HashSame *same, const void *key);
/* Adds an item, to a table with room. */
void hash_table_add(HashTable *t, uint64_t hash, const void *item);

#endif
