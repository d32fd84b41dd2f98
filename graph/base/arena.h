/* Bump allocation: everything of one owner is freed at once. */
#ifndef DPX_BASE_ARENA_H
#define DPX_BASE_ARENA_H

#include <stddef.h>

#include "graph/base/budget.h"

typedef struct Arena Arena;

Arena *arena_create(void);                   /* NULL when out of memory */
Arena *arena_create_within(MemoryBudget *b); /* whose blocks are taken of the budget; NULL: of none */
Arena *arena_create_beside(const Arena *a);  /* within the same budget */
MemoryBudget *arena_budget(const Arena *a);  /* lent; NULL: none */
void arena_free(Arena *a);                   /* NULL is legal */
/* Zeroed, 16-byte aligned (64 from 256 bytes up); never moves.  NULL when out of memory.  `n` may be 0. */
void *arena_alloc(Arena *a, size_t n);
void *arena_memdup(Arena *a, const void *p, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
size_t arena_bytes(const Arena *a); /* bytes obtained from the system so far */

/* `n` zeroed objects of type T; NULL when out of memory or when the product overflows. */
#define ARENA_NEW(a, T, n) ((T *)arena_array((a), sizeof(T), (size_t)(n)))
void *arena_array(Arena *a, size_t size, size_t n);

/* Makes room for one more element in an array that lives in an arena: doubles `*cap`, copies, returns the new address
 * (or `p` when there is room, NULL when out of memory). */
void *arena_grow(Arena *a, void *p, size_t size, size_t n, size_t *cap);

#endif
