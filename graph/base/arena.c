/* A list of blocks; the first block of a list is the one being filled. */
#include "graph/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024, BIG_ALIGN_FROM = 256 };

typedef struct Block {
    struct Block *next;
    size_t used, size; /* of `data` */
    _Alignas(64) char data[];
} Block;

struct Arena {
    Block *blocks;
    size_t bytes;
    MemoryBudget *budget; /* NULL: none */
};

Arena *arena_create_within(MemoryBudget *b)
{
    Arena *a = calloc(1, sizeof *a);

    if (a)
        a->budget = memory_budget_keep(b);
    return a;
}

Arena *arena_create(void) { return arena_create_within(NULL); }

Arena *arena_create_beside(const Arena *a) { return arena_create_within(a->budget); }

MemoryBudget *arena_budget(const Arena *a) { return a->budget; }

void arena_free(Arena *a)
{
    if (!a)
        return;
    memory_budget_give(a->budget, a->bytes);
    memory_budget_free(a->budget);
    for (Block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(a);
}

static Block *block_create(Arena *a, size_t n)
{
    size_t size = n > BLOCK_BYTES / 4 ? (n + 63) & ~(size_t)63 : BLOCK_BYTES;
    Block *b;

    if (size < n || size > PTRDIFF_MAX - sizeof(Block) - 64 || !memory_budget_take(a->budget, size))
        return NULL;
    if (!(b = aligned_alloc(64, sizeof(Block) + size))) {
        memory_budget_give(a->budget, size);
        return NULL;
    }
    b->used = 0;
    b->size = size;
    if (size != BLOCK_BYTES && a->blocks) { /* a block of its own: keep filling the present one */
        b->next = a->blocks->next;
        a->blocks->next = b;
    } else {
        b->next = a->blocks;
        a->blocks = b;
    }
    a->bytes += size;
    return b;
}

void *arena_alloc(Arena *a, size_t n)
{
    size_t align = n >= BIG_ALIGN_FROM ? 64 : 16;
    Block *b = a->blocks;
    size_t at = b ? (b->used + align - 1) & ~(align - 1) : 0;

    if (!b || at > b->size || n > b->size - at) {
        if (!(b = block_create(a, n)))
            return NULL;
        at = 0;
    }
    b->used = at + n;
    return memset(b->data + at, 0, n);
}

void *arena_array(Arena *a, size_t size, size_t n) { return n > SIZE_MAX / size ? NULL : arena_alloc(a, size * n); }

void *arena_memdup(Arena *a, const void *p, size_t n)
{
    void *copy = arena_alloc(a, n);

    return copy && n ? memcpy(copy, p, n) : copy;
}

char *arena_strdup(Arena *a, const char *s) { return arena_memdup(a, s, strlen(s) + 1); }

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    char *s = NULL;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && (s = arena_alloc(a, (size_t)n + 1))) {
        va_start(ap, fmt);
        vsnprintf(s, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    return s;
}

void *arena_grow(Arena *a, void *p, size_t size, size_t n, size_t *cap)
{
    size_t grown = *cap ? *cap * 2 : 16;
    void *moved;

    if (n < *cap)
        return p;
    if (!(moved = arena_array(a, size, grown)))
        return NULL;
    if (n)
        memcpy(moved, p, n * size);
    *cap = grown;
    return moved;
}

size_t arena_bytes(const Arena *a) { return a->bytes; }
