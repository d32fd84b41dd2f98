/* passes/plan/last_touch.c against a list of who touched each piece. */
#include "passes/plan/last_touch.h"

#include "tests/harness/test.h"

enum { MOST = 70, STEPS = 300 };

static uint32_t below(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

static void check_line(uint32_t n, uint32_t *seed)
{
    Arena *a = arena_create();
    int last[MOST];
    LastTouch t;

    for (uint32_t i = 0; i < n; i++)
        last[i] = -1;
    if (CHECK_OK(last_touch_create(&t, n, a)))
        for (int step = 0; step < STEPS; step++) {
            uint32_t from = below(seed, n), to = from + below(seed, n - from + 1);
            int want = -1;

            for (uint32_t i = from; i < to; i++)
                want = last[i] > want ? last[i] : want;
            CU_ASSERT_EQUAL_FATAL(last_touch_of(&t, from, to), want);
            if (below(seed, 3))
                continue;
            last_touch_set(&t, from, to, step);
            for (uint32_t i = from; i < to; i++)
                last[i] = step;
        }
    arena_free(a);
}

static void test_random(void)
{
    uint32_t seed = 1;

    for (uint32_t n = 1; n <= MOST; n++)
        check_line(n, &seed);
}

DEFINE_SUITE(last_touch, { "random pieces", test_random });
