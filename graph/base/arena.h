/* Bump allocation: everything of one owner is freed at once. */
#ifndef DPX_BASE_ARENA_H
#define DPX_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "graph/base/budget.h"

typedef struct Arena Arena;

Arena *arena_create(void);                   /* NULL when out of memory */
Arena *arena_create_within(MemoryBudget *b); /* whose blocks are taken of the budget; NULL: of none */
Arena *arena_create_beside(const Arena *a);  /* within the same budget */
MemoryBudget *arena_budget(const Arena *a);  /* lent; NULL: none */
void arena_free(Arena *a);                   /* NULL is legal; its memory goes when nothing holds it any more */
/* All that was allocated of it is gone; it lends of nobody.  For what is made over and over. */
void arena_clear(Arena *a);
/* What `a` lends points into `lender`, whose memory stays as long as `a` does.  false: out of memory. */
bool arena_hold(Arena *a, Arena *lender);
/* Zeroed, 16-byte aligned (64 from 256 bytes up); never moves.  NULL when out of memory.  `n` may be 0. */
void *arena_alloc(Arena *a, size_t n);
void *arena_memdup(Arena *a, const void *p, size_t n); /* of whole objects, aligned as they need it */
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
size_t arena_bytes(const Arena *a); /* bytes it has of the system */

/* `n` zeroed objects of type T, aligned for it; NULL when out of memory or when the product overflows. */
#define ARENA_NEW(a, T, n) ((T *)arena_array((a), sizeof(T), (size_t)(n)))
void *arena_array(Arena *a, size_t size, size_t n);

/* Nobody uses these `n` bytes, as many as were asked for, any more: those of a large array go back to the system,
 * others with the arena.  NULL is legal. */
void arena_give_back(Arena *a, void *p, size_t n);

/* The array of `n` bytes becomes the other arena's, where it lies: it has to be a large one, and the budgets the same;
 * false else, and nothing has changed. */
bool arena_move(Arena *to, Arena *from, void *p, size_t n);

/* Makes room for one more element in an array that lives in an arena: doubles `*cap`, moves it, gives its old place
 * back, and returns the new address (or `p` when there is room; NULL when out of memory: it stays where it is). */
void *arena_grow(Arena *a, void *p, size_t size, size_t n, size_t *cap);

#endif
