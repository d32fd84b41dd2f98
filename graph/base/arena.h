/* Arenas: bump allocation, where all objects of an owner are freed at once. */
#ifndef DPX_BASE_ARENA_H
#define DPX_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "graph/base/budget.h"

typedef struct Arena Arena;

Arena *arena_create(void);                   /* NULL when out of memory */
Arena *arena_create_within(MemoryBudget *b); /* blocks are charged to the budget; NULL: no limit */
Arena *arena_create_beside(const Arena *a);  /* within the budget of `a` */
MemoryBudget *arena_budget(const Arena *a);  /* lent; NULL: none */
void arena_free(Arena *a);                   /* NULL is legal; its memory is freed when nothing holds it any more */
/* Frees all objects and keeps a block, for an arena that is filled again and again.  It must hold no other arena. */
void arena_clear(Arena *a);
/* Keeps `lender`'s memory as long as `a` lives, because objects in `a` point into it.  false: out of memory. */
bool arena_hold(Arena *a, Arena *lender);
/* Allocates n bytes, zeroed and 16-byte aligned (64 from 256 bytes up), which never move.  NULL when out of memory.
 * `n` may be 0. */
void *arena_alloc(Arena *a, size_t n);
void *arena_memdup(Arena *a, const void *p, size_t n); /* whole objects, aligned for their type */
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
size_t arena_bytes(const Arena *a); /* bytes that it has from the system */

/* `n` zeroed objects of type T, aligned for it; NULL when out of memory or when the product overflows. */
#define ARENA_NEW(a, T, n) ((T *)arena_array((a), sizeof(T), (size_t)(n)))
void *arena_array(Arena *a, size_t size, size_t n);

/* Gives back an allocation of `n` bytes that nobody uses any more: large ones are freed at once, others with the arena.
 * NULL is legal. */
void arena_give_back(Arena *a, void *p, size_t n);

/* Makes `to` the owner of an allocation of `n` bytes, which does not move.  false, and nothing has changed: it is not a
 * large one, or the arenas have different budgets. */
bool arena_move(Arena *to, Arena *from, void *p, size_t n);

/* Makes room for one more element in an array of n elements: doubles `*cap`, moves the array, gives the old one back,
 * and returns the new address.  Returns `p` if there is room; NULL when out of memory, and the array stays valid. */
void *arena_grow(Arena *a, void *p, size_t size, size_t n, size_t *cap);

#endif
