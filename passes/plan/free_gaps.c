/* A gap belongs to the block above it.  Blocks that are alive form a ring by offset; those with a gap below them are in
 * a treap too, by size of the gap and then offset, with priorities that are a hash of their number. */
#include "passes/plan/free_gaps.h"

#include <stdbool.h>

typedef struct GapBlock {
    size_t offset, end, gap;  /* the gap is the room between the block below and this one */
    uint32_t below, above;    /* in the ring */
    uint32_t smaller, larger; /* in the treap; n: none */
} GapBlock;

Status gaps_init(Gaps *g, uint32_t n, Arena *a)
{
    *g = (Gaps){ ARENA_NEW(a, GapBlock, (size_t)n + 1), n, n, 0 };
    if (!g->block)
        return FAIL_NOMEM();
    g->block[n].below = g->block[n].above = n;
    return ST_OK;
}

/* ---- the treap ---- */

static uint32_t priority(uint32_t i)
{
    i = (i ^ i >> 16) * 0x45d9f3bu;
    i = (i ^ i >> 16) * 0x45d9f3bu;
    return i ^ i >> 16;
}

static bool is_before(const GapBlock *a, const GapBlock *b)
{
    return a->gap != b->gap ? a->gap < b->gap : a->offset < b->offset;
}

/* Parts the tree into what stands before block i and what behind. */
static void split(Gaps *g, uint32_t tree, uint32_t i, uint32_t *before, uint32_t *behind)
{
    while (tree != g->n) {
        GapBlock *b = &g->block[tree];

        if (is_before(b, &g->block[i])) {
            *before = tree;
            before = &b->larger;
            tree = b->larger;
        } else {
            *behind = tree;
            behind = &b->smaller;
            tree = b->smaller;
        }
    }
    *before = *behind = g->n;
}

static void insert(Gaps *g, uint32_t i)
{
    uint32_t *at = &g->root;

    if (!g->block[i].gap)
        return;
    while (*at != g->n && priority(*at) > priority(i))
        at = is_before(&g->block[*at], &g->block[i]) ? &g->block[*at].larger : &g->block[*at].smaller;
    split(g, *at, i, &g->block[i].smaller, &g->block[i].larger);
    *at = i;
}

static void take_out(Gaps *g, uint32_t i)
{
    uint32_t *at = &g->root, a = g->block[i].smaller, b = g->block[i].larger;

    if (!g->block[i].gap)
        return;
    while (*at != i)
        at = is_before(&g->block[*at], &g->block[i]) ? &g->block[*at].larger : &g->block[*at].smaller;
    while (a != g->n && b != g->n)
        if (priority(a) > priority(b)) {
            *at = a;
            at = &g->block[a].larger;
            a = *at;
        } else {
            *at = b;
            at = &g->block[b].smaller;
            b = *at;
        }
    *at = a != g->n ? a : b;
}

/* The block above the smallest gap of `bytes` or more; n: there is none. */
static uint32_t fitting(const Gaps *g, size_t bytes)
{
    uint32_t found = g->n;

    for (uint32_t i = g->root; i != g->n;)
        if (g->block[i].gap >= bytes) {
            found = i;
            i = g->block[i].smaller;
        } else {
            i = g->block[i].larger;
        }
    return found;
}

/* ---- the region ---- */

static void set_gap(Gaps *g, uint32_t i, size_t gap)
{
    if (i == g->n)
        return; /* above the highest block there is no end */
    take_out(g, i);
    g->block[i].gap = gap;
    insert(g, i);
}

size_t gaps_take(Gaps *g, uint32_t i, size_t bytes)
{
    uint32_t above = fitting(g, bytes), below = g->block[above].below;
    GapBlock *b = &g->block[i];

    b->offset = below == g->n ? 0 : g->block[below].end;
    b->end = b->offset + bytes;
    b->gap = 0;
    b->below = below;
    b->above = above;
    g->block[below].above = g->block[above].below = i;
    set_gap(g, above, g->block[above].gap - bytes);
    if (b->end > g->top)
        g->top = b->end;
    return b->offset;
}

void gaps_release(Gaps *g, uint32_t i)
{
    GapBlock *b = &g->block[i];

    set_gap(g, i, 0);
    g->block[b->below].above = b->above;
    g->block[b->above].below = b->below;
    if (b->above != g->n)
        set_gap(g, b->above, g->block[b->above].offset - (b->below == g->n ? 0 : g->block[b->below].end));
}
