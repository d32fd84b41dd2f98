/* Packing of intervals: offline dynamic storage allocation, which is NP-hard, by greedy placement.
 *
 * Items are placed one by one, each in the smallest gap that fits among the placed items alive at the same time.  The
 * order decides the quality: by size, by size times duration, by duration and by start are tried, and the best one is
 * refined by moving items that stick out at the top to the front.  The first order that reaches the lower bound ends
 * the search.
 *
 * A placement looks at all pairs of items.  A fixed number of pairs limits how many orders are tried.  If not all can
 * be, the order by start comes first, by a walk through time in n log n.  So many items are a training step's long
 * chain, where its result is within a thousandth of the bound. */
#include "passes/plan/pack.h"

#include <stdlib.h>
#include <string.h>

#include "passes/plan/free_gaps.h"

enum { BY_START = 3, BY_END, N_RULES = 4, MIN_REFINE = 16, MAX_REFINE = 400 };
enum { REFINE_PAIRS = 1 << 24, MAX_PAIRS = 1 << 28 }; /* pairs of items looked at: to refine small ones, by all tries */

typedef struct {
    double weight;
    uint32_t i;
} Rank;

typedef struct {
    PackItem *item;
    uint32_t n;
    Rank *rank;
    uint32_t *order;  /* item numbers in order of placement */
    uint32_t *placed; /* item numbers by increasing offset */
    size_t *offset, *best;
    size_t best_total;
} Packing;

static int by_weight(const void *pa, const void *pb)
{
    const Rank *a = pa, *b = pb;

    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    return a->i < b->i ? -1 : 1;
}

/* *out: the most bytes that are alive at one time.  Goes through the items' ends, numbered [0, n), and starts, numbered
 * [n, 2n), in the order of time; ends come first. */
static Status lower_bound(size_t *out, const PackItem *item, uint32_t n, Arena *a)
{
    Rank *e = ARENA_NEW(a, Rank, 2 * (size_t)n);
    size_t live = 0;

    if (!e)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < n; i++) {
        e[i] = (Rank){ -(double)item[i].last - 1, i };
        e[n + i] = (Rank){ -(double)item[i].first, n + i };
    }
    qsort(e, 2 * (size_t)n, sizeof *e, by_weight);
    *out = 0;
    for (uint32_t i = 0; i < 2 * n; i++) {
        if (e[i].i < n)
            live -= item[e[i].i].bytes;
        else
            live += item[e[i].i - n].bytes;
        *out = live > *out ? live : *out;
    }
    arena_give_back(a, e, 2 * (size_t)n * sizeof *e);
    return ST_OK;
}

/* Places item i in the smallest gap that fits, below, between or above the placed items alive with it, and inserts it
 * into `placed`. */
static void pack_place(Packing *p, uint32_t i, uint32_t n_placed)
{
    const PackItem *x = &p->item[i];
    size_t top = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    uint32_t at;

    for (uint32_t k = 0; k < n_placed; k++) {
        uint32_t j = p->placed[k];
        const PackItem *y = &p->item[j];

        if (y->last < x->first || y->first > x->last)
            continue;
        if (p->offset[j] >= top && p->offset[j] - top >= x->bytes && p->offset[j] - top < best_gap) {
            best_gap = p->offset[j] - top;
            best = top;
        }
        if (p->offset[j] + y->bytes > top)
            top = p->offset[j] + y->bytes;
    }
    p->offset[i] = best == SIZE_MAX ? top : best;
    for (at = n_placed; at && p->offset[p->placed[at - 1]] > p->offset[i]; at--)
        p->placed[at] = p->placed[at - 1];
    p->placed[at] = i;
}

/* Places all in p->order; keeps the offsets if they are the best so far. */
static size_t try_order(Packing *p)
{
    size_t total = 0;

    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = p->order[k];

        pack_place(p, i, k);
        if (p->offset[i] + p->item[i].bytes > total)
            total = p->offset[i] + p->item[i].bytes;
    }
    if (total < p->best_total) {
        p->best_total = total;
        memcpy(p->best, p->offset, p->n * sizeof *p->best);
    }
    return total;
}

static double weight(const PackItem *x, int rule)
{
    double bytes = (double)x->bytes, span = (double)(x->last - x->first) + 1;

    switch (rule) {
    case 0: return bytes;
    case 1: return bytes * span;
    case 2: return span;
    case BY_START: return -(double)x->first;
    default: return -(double)x->last;
    }
}

static void order_by(Packing *p, int rule)
{
    for (uint32_t i = 0; i < p->n; i++)
        p->rank[i] = (Rank){ weight(&p->item[i], rule), i };
    qsort(p->rank, p->n, sizeof *p->rank, by_weight);
    for (uint32_t i = 0; i < p->n; i++)
        p->order[i] = p->rank[i].i;
}

/* Moves the items that end at the very top to the front of the order. */
static void raise_top(Packing *p, size_t total)
{
    uint32_t k, i;

    for (k = p->n; k-- > 1;)
        if (p->offset[p->order[k]] + p->item[p->order[k]].bytes == total)
            break;
    i = p->order[k];
    memmove(p->order + 1, p->order, k * sizeof *p->order);
    p->order[0] = i;
}

/* Places like try_order by start, by a walk through time: items that have ended make room before the next one begins.
 */
static Status try_in_time(Packing *p, Arena *a)
{
    uint32_t *by_end = ARENA_NEW(a, uint32_t, p->n), ended = 0;
    Gaps gaps;

    if (!by_end)
        return FAIL_NOMEM();
    TRY(gaps_init(&gaps, p->n, a));
    order_by(p, BY_END);
    memcpy(by_end, p->order, p->n * sizeof *by_end);
    order_by(p, BY_START);
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = p->order[k];

        for (; p->item[by_end[ended]].last < p->item[i].first; ended++)
            gaps_release(&gaps, by_end[ended]);
        p->best[i] = gaps_take(&gaps, i, p->item[i].bytes);
    }
    p->best_total = gaps.top;
    return ST_OK;
}

/* How many rules the number of pairs allows, the most promising first. */
static int rules_allowed(const Packing *p)
{
    uint64_t tries = MAX_PAIRS / ((uint64_t)p->n * p->n);

    return tries >= N_RULES + 1 + MIN_REFINE ? N_RULES : tries < BY_START ? (int)tries : BY_START;
}

static Status pack_search(Packing *p, size_t bound, Arena *a)
{
    size_t total;
    uint64_t refine = REFINE_PAIRS / ((uint64_t)p->n * p->n);
    int best_rule = 0, n_rules = rules_allowed(p);

    if (n_rules < N_RULES)
        TRY(try_in_time(p, a));
    for (int rule = 0; rule < n_rules && p->best_total > bound; rule++) {
        size_t before = p->best_total;

        order_by(p, rule);
        if (try_order(p) < before)
            best_rule = rule;
    }
    if (p->best_total <= bound || n_rules < N_RULES)
        return ST_OK;
    order_by(p, best_rule);
    total = try_order(p);
    refine = refine < MIN_REFINE ? MIN_REFINE : refine > MAX_REFINE ? MAX_REFINE : refine;
    for (uint64_t i = 0; i < refine && p->best_total > bound; i++) {
        raise_top(p, total);
        total = try_order(p);
    }
    return ST_OK;
}

Status pack(PackItem *item, uint32_t n, size_t align, size_t *total, size_t *bound, Arena *scratch)
{
    Packing p = { .item = item, .n = n, .best_total = SIZE_MAX };
    size_t n_tried;

    *total = *bound = 0;
    if (!n)
        return ST_OK;
    n_tried = rules_allowed(&p) ? n : 0;
    p.rank = ARENA_NEW(scratch, Rank, n);
    p.order = ARENA_NEW(scratch, uint32_t, n);
    p.placed = ARENA_NEW(scratch, uint32_t, n_tried);
    p.offset = ARENA_NEW(scratch, size_t, n_tried);
    p.best = ARENA_NEW(scratch, size_t, n);
    if (!p.rank || !p.order || !p.placed || !p.offset || !p.best)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < n; i++)
        item[i].bytes = (item[i].bytes + align - 1) & ~(align - 1);
    TRY(lower_bound(bound, item, n, scratch));
    TRY(pack_search(&p, *bound, scratch));
    for (uint32_t i = 0; i < n; i++)
        item[i].offset = p.best[i];
    *total = p.best_total;
    return ST_OK;
}
