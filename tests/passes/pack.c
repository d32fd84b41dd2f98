/* Packing: buffers that are alive together never overlap, and little more memory is used than they need. */
#include "passes/plan/pack.h"

#include <stdbool.h>
#include <stdlib.h>

#include "passes/plan/free_gaps.h"
#include "tests/harness/test.h"

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void check_disjoint(const PackItem *x, uint32_t n, size_t align, size_t total)
{
    for (uint32_t i = 0; i < n; i++) {
        CU_ASSERT_FATAL(x[i].offset % align == 0 && x[i].offset + x[i].bytes <= total);
        for (uint32_t j = i + 1; j < n; j++)
            if (x[i].first <= x[j].last && x[j].first <= x[i].last && x[i].bytes && x[j].bytes)
                CU_ASSERT_FATAL(x[i].offset + x[i].bytes <= x[j].offset || x[j].offset + x[j].bytes <= x[i].offset);
    }
}

/* The sum at every instant, by definition. */
static size_t most_alive(const PackItem *x, uint32_t n, size_t align, uint32_t instants)
{
    size_t most = 0;

    for (uint32_t t = 0; t < instants; t++) {
        size_t sum = 0;

        for (uint32_t i = 0; i < n; i++)
            if (x[i].first <= t && t <= x[i].last)
                sum += (x[i].bytes + align - 1) / align * align;
        most = sum > most ? sum : most;
    }
    return most;
}

static void test_random(void)
{
    enum { MAX = 120, INSTANTS = 60 };

    for (uint32_t seed = 1; seed <= 150; seed++) {
        uint32_t s = seed, n = 1 + next(&s) % MAX;
        PackItem x[MAX];
        Arena *a = arena_create();
        const size_t align = seed % 2 ? 64 : 256;
        size_t total, bound, expected;

        for (uint32_t i = 0; i < n; i++) {
            uint32_t first = next(&s) % INSTANTS, length = next(&s) % (next(&s) % 4 ? 8 : INSTANTS);

            x[i] = (PackItem){ .bytes = next(&s) % (next(&s) % 3 ? 2000 : 40000),
                               .first = first,
                               .last = first + length < INSTANTS ? first + length : INSTANTS - 1 };
        }
        expected = most_alive(x, n, align, INSTANTS);
        CHECK_OK(pack(x, n, align, &total, &bound, a));
        CU_ASSERT_EQUAL(bound, expected);
        CU_ASSERT(total >= bound);
        if (total > bound + bound / 8)
            TEST_FAIL("seed %u: %zu bytes for a bound of %zu", seed, total, bound);
        check_disjoint(x, n, align, total);
        arena_free(a);
    }
}

/* Forward and backward of a chain: activation i lives from i to 2n-i, which packs without a hole. */
static void test_chain_is_tight(void)
{
    enum { N = 30 };
    PackItem x[N];
    Arena *a = arena_create();
    size_t total, bound;

    for (uint32_t i = 0; i < N; i++)
        x[i] = (PackItem){ .bytes = 64 * (1 + (i * 37) % 11), .first = i, .last = 2 * N - i };
    CHECK_OK(pack(x, N, 64, &total, &bound, a));
    CU_ASSERT_EQUAL(total, bound);
    CHECK_OK(pack(x, 0, 64, &total, &bound, a));
    CU_ASSERT_EQUAL(total, 0);
    arena_free(a);
}

/* More items than pairs of them can all be looked at. */
static void test_many(void)
{
    enum { N = 20000 };
    PackItem *x = calloc(N, sizeof *x);
    Arena *a = arena_create();
    size_t total, bound;
    uint32_t s = 7;

    for (uint32_t i = 0; i < N; i++) {
        uint32_t length = next(&s) % 50 ? next(&s) % 60 : next(&s) % N;

        x[i] = (PackItem){ .bytes = 1 + next(&s) % 4000, .first = i, .last = i + length };
    }
    CHECK_OK(pack(x, N, 64, &total, &bound, a));
    if (total > bound + bound / 8)
        TEST_FAIL("%zu bytes for a bound of %zu", total, bound);
    check_disjoint(x, N, 64, total);
    arena_free(a);
    free(x);
}

/* Where the smallest gap between x[0] ... x[n-1] that are `alive` is, by definition. */
static size_t best_fit(const PackItem *x, const bool *alive, uint32_t n, size_t bytes)
{
    size_t best = SIZE_MAX, best_gap = SIZE_MAX;

    for (uint32_t k = 0; k <= n; k++) { /* the gap at the end of x[k], or at the bottom */
        size_t from = k < n ? x[k].offset + x[k].bytes : 0, to = SIZE_MAX;

        if (k < n && !alive[k])
            continue;
        for (uint32_t i = 0; i < n; i++)
            if (alive[i] && x[i].offset + x[i].bytes > from && x[i].offset < to)
                to = x[i].offset > from ? x[i].offset : from;
        if (to - from >= bytes && (to - from < best_gap || (to - from == best_gap && from < best))) {
            best = from;
            best_gap = to - from;
        }
    }
    return best;
}

static void test_gaps(void)
{
    enum { N = 400 };

    for (uint32_t seed = 1; seed <= 20; seed++) {
        PackItem x[N] = { 0 };
        bool alive[N] = { false };
        Arena *a = arena_create();
        uint32_t s = seed;
        Gaps gaps;

        CHECK_OK(gaps_init(&gaps, N, a));
        for (uint32_t i = 0; i < N; i++) {
            uint32_t gone = next(&s) % N;

            x[i].bytes = 64 * (1 + next(&s) % 9);
            x[i].offset = gaps_take(&gaps, i, x[i].bytes);
            if (x[i].offset != best_fit(x, alive, i, x[i].bytes))
                TEST_FAIL("seed %u, block %u: at %zu, expected %zu", seed, i, x[i].offset,
                          best_fit(x, alive, i, x[i].bytes));
            alive[i] = true;
            if (alive[gone])
                gaps_release(&gaps, gone);
            alive[gone] = false;
        }
        arena_free(a);
    }
}

DEFINE_SUITE(pack, { "many buffers", test_many }, { "gaps are the smallest that fit", test_gaps },
             { "random buffers", test_random }, { "a chain is tight", test_chain_is_tight });
