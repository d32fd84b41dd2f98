/* last_touch: leaf i of the tree is node n + i, the parent of node x is x / 2 (bottom-up, for any n). */
#include "passes/plan/last_touch.h"

Status last_touch_create(LastTouch *out, uint32_t n, Arena *a)
{
    *out = (LastTouch){ n, ARENA_NEW(a, int, 2 * (size_t)n), ARENA_NEW(a, int, 2 * (size_t)n) };
    return out->whole && out->any ? ST_OK : FAIL_NOMEM();
}

void last_touch_set(LastTouch *t, uint32_t from, uint32_t to, int step)
{
    const size_t first = (size_t)from + t->n, last = (size_t)to + t->n - 1;

    if (from >= to)
        return;
    for (size_t l = first, r = last + 1; l < r; l /= 2, r /= 2) {
        if (l % 2)
            t->whole[l] = t->any[l] = step + 1, l++;
        if (r % 2)
            --r, t->whole[r] = t->any[r] = step + 1;
    }
    for (size_t x = first / 2; x; x /= 2)
        t->any[x] = step + 1;
    for (size_t x = last / 2; x; x /= 2)
        t->any[x] = step + 1;
}

static int later(int a, int b) { return a > b ? a : b; }

int last_touch_of(const LastTouch *t, uint32_t from, uint32_t to)
{
    const size_t first = (size_t)from + t->n, last = (size_t)to + t->n - 1;
    int found = 0;

    if (from >= to)
        return -1;
    for (size_t l = first, r = last + 1; l < r; l /= 2, r /= 2) {
        if (l % 2)
            found = later(found, t->any[l++]);
        if (r % 2)
            found = later(found, t->any[--r]);
    }
    for (size_t x = first / 2; x; x /= 2)
        found = later(found, t->whole[x]);
    for (size_t x = last / 2; x; x /= 2)
        found = later(found, t->whole[x]);
    return found - 1;
}
