/* Arenas: lists of blocks, whose first block is being filled.  A large allocation gets its own block, which is freed
 * when an array that grew gives it back. */
#include "graph/base/arena.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/host_memory.h"
#include "graph/base/numtext.h"

#ifndef ARENA_OWN_FROM
#define ARENA_OWN_FROM (BLOCK_BYTES / 4 + 1) /* tests/memory gives every allocation its own block */
#endif

enum { BLOCK_BYTES = 64 * 1024, OWN_FROM = ARENA_OWN_FROM, ALIGN = 16, BIG_ALIGN = 64, BIG_ALIGN_FROM = 256 };

typedef struct Block {
    struct Block *next, *prev;
    size_t used, size; /* of `data` */
    _Alignas(BIG_ALIGN) char data[];
} Block;

struct Arena {
    Block *blocks;
    size_t bytes;
    MemoryBudget *budget; /* NULL: none */
    atomic_int holders;   /* the owner, and arenas that hold it */
    Arena **held;         /* arenas that it holds */
    size_t n_held, cap_held;
};

Arena *arena_create_within(MemoryBudget *b)
{
    Arena *a = calloc(1, sizeof *a);

    if (a) {
        a->budget = memory_budget_keep(b);
        atomic_init(&a->holders, 1);
    }
    return a;
}

Arena *arena_create(void) { return arena_create_within(NULL); }

Arena *arena_create_beside(const Arena *a) { return arena_create_within(a->budget); }

MemoryBudget *arena_budget(const Arena *a) { return a->budget; }

void arena_free(Arena *a)
{
    if (!a || atomic_fetch_sub(&a->holders, 1) > 1)
        return;
    for (size_t i = 0; i < a->n_held; i++)
        arena_free(a->held[i]);
    memory_budget_give(a->budget, a->bytes);
    memory_budget_free(a->budget);
    for (Block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        host_free(b);
    }
    free(a);
}

void arena_clear(Arena *a)
{
    Block *kept = NULL;

    for (Block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        if (!kept && b->size == BLOCK_BYTES) {
            kept = b;
            continue;
        }
        a->bytes -= b->size;
        memory_budget_give(a->budget, b->size);
        host_free(b);
    }
    if (kept) {
        kept->next = kept->prev = NULL;
        kept->used = 0;
    }
    a->blocks = kept;
}

bool arena_hold(Arena *a, Arena *lender)
{
    Arena **grown;

    for (size_t i = 0; i < a->n_held; i++)
        if (a->held[i] == lender)
            return true;
    if (!(grown = arena_grow(a, a->held, sizeof(Arena *), a->n_held, &a->cap_held)))
        return false;
    a->held = grown;
    a->held[a->n_held++] = lender;
    atomic_fetch_add(&lender->holders, 1);
    return true;
}

static Block *block_create(Arena *a, size_t n)
{
    size_t size = n >= OWN_FROM ? (n + 63) & ~(size_t)63 : BLOCK_BYTES;
    Block *b;

    if (size < n || size > PTRDIFF_MAX - sizeof(Block) - 64 || !memory_budget_take(a->budget, size))
        return NULL;
    if (!(b = host_alloc(BIG_ALIGN, sizeof(Block) + size))) {
        memory_budget_give(a->budget, size);
        return NULL;
    }
    b->used = 0;
    b->size = size;
    a->bytes += size;
    return b;
}

/* Inserts a block after `at`; NULL: as the first. */
static void block_insert(Arena *a, Block *b, Block *at)
{
    b->prev = at;
    b->next = at ? at->next : a->blocks;
    if (b->next)
        b->next->prev = b;
    *(at ? &at->next : &a->blocks) = b;
}

static void *alloc_aligned(Arena *a, size_t n, size_t align)
{
    Block *b = a->blocks;
    size_t at;

    if (n >= OWN_FROM) { /* after the first block, which goes on being filled */
        if (!(b = block_create(a, n)))
            return NULL;
        block_insert(a, b, a->blocks);
        b->used = b->size;
        return memset(b->data, 0, n);
    }
    align = n >= BIG_ALIGN_FROM ? BIG_ALIGN : align;
    at = b ? (b->used + align - 1) & ~(align - 1) : 0;
    if (!b || at > b->size || n > b->size - at) {
        if (!(b = block_create(a, n)))
            return NULL;
        block_insert(a, b, NULL);
        at = 0;
    }
    b->used = at + n;
    return memset(b->data + at, 0, n);
}

/* An object's size is a multiple of its type's alignment. */
static size_t align_of(size_t size)
{
    size_t align = size & -size;

    return align && align < ALIGN ? align : ALIGN;
}

void *arena_alloc(Arena *a, size_t n) { return alloc_aligned(a, n, ALIGN); }

void *arena_array(Arena *a, size_t size, size_t n)
{
    return n > SIZE_MAX / size ? NULL : alloc_aligned(a, size * n, align_of(size));
}

/* Removes the block that holds only these n bytes from the arena, and returns it; NULL: they share a block. */
static Block *take_own(Arena *a, void *p, size_t n)
{
    Block *b;

    if (!p || n < OWN_FROM)
        return NULL;
    b = (Block *)((char *)p - offsetof(Block, data));
    *(b->prev ? &b->prev->next : &a->blocks) = b->next;
    if (b->next)
        b->next->prev = b->prev;
    a->bytes -= b->size;
    return b;
}

void arena_give_back(Arena *a, void *p, size_t n)
{
    Block *b = take_own(a, p, n);

    if (!b)
        return;
    memory_budget_give(a->budget, b->size);
    host_free(b);
}

bool arena_move(Arena *to, Arena *from, void *p, size_t n)
{
    Block *b = to->budget == from->budget ? take_own(from, p, n) : NULL;

    if (!b)
        return false;
    to->bytes += b->size;
    block_insert(to, b, to->blocks);
    return true;
}

void *arena_memdup(Arena *a, const void *p, size_t n)
{
    void *copy = alloc_aligned(a, n, align_of(n));

    return copy && n ? memcpy(copy, p, n) : copy;
}

char *arena_strdup(Arena *a, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = alloc_aligned(a, n, 1);

    return copy ? memcpy(copy, s, n) : NULL;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    char *s = NULL;
    int n;

    va_start(ap, fmt);
    n = text_vformat(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && (s = alloc_aligned(a, (size_t)n + 1, 1))) {
        va_start(ap, fmt);
        (void)text_vformat(s, (size_t)n + 1, fmt, ap);
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
    arena_give_back(a, p, *cap * size);
    *cap = grown;
    return moved;
}

size_t arena_bytes(const Arena *a) { return a->bytes; }
