/* Tables that store each distinct shape once. */
#ifndef DPX_SHAPE_TABLE_H
#define DPX_SHAPE_TABLE_H

#include "graph/base/hash_table.h"
#include "graph/tensor/shape.h"

/* Returns the table's shape that equals s, added if there is none.  Always to be called with the same arena, which owns
 * the table and its shapes.  NULL: out of memory. */
const Shape *shapes_share(HashTable *t, Arena *a, const Shape *s);

#endif
