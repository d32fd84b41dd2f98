/* The suggestion of --lr-find on made-up curves. */
#include <math.h>

#include "tests/harness/test.h"
#include "tools/training/steepest_fall.h"

enum { STEPS = 200, CENTRE = 90, LEAST = 130 };

/* A noise within -1 and 1 that repeats. */
static double noise(int i) { return 2 * (sin(i * 12.9898) * 43758.5453 - floor(sin(i * 12.9898) * 43758.5453)) - 1; }

/* A smoothed loss that falls as a logistic curve, steepest at CENTRE, and behind LEAST rises in a zigzag. */
static void make_curve(LrFindStep step[STEPS], double noisy, double zigzag)
{
    for (int i = 0; i < STEPS; i++)
        step[i] =
            (LrFindStep){ .lr = pow(10, -7 + 8.0 * i / (STEPS - 1)),
                          .mean = 2.3 - 1.5 / (1 + exp((CENTRE - i) / 6.0)) + noisy * noise(i) +
                                  (i > LEAST ? (i - LEAST) * 0.02 + (i % 8 < 5 ? i % 8 : 10 - i % 8) * zigzag : 0) };
}

static double slope_at(const LrFindStep *s, int i) { return (s[i + 1].mean - s[i - 1].mean) / 2; }

static void test_divergence(void)
{
    LrFindStep step[STEPS];
    int64_t found;
    int steepest = 11;

    make_curve(step, 0, 0);
    CU_ASSERT_EQUAL(steepest_fall(step, STEPS), CENTRE);
    make_curve(step, 0.004, 0.3);
    for (int i = 11; i < STEPS - 2; i++)
        steepest = slope_at(step, i) < slope_at(step, steepest) ? i : steepest;
    CU_ASSERT(steepest > LEAST); /* which Lightning's formula would suggest */
    found = steepest_fall(step, STEPS);
    if (found < CENTRE - 8 || found > CENTRE + 8)
        TEST_FAIL("found step %d, expected about %d", (int)found, CENTRE);
    step[STEPS - 2].mean = step[STEPS - 1].mean = NAN;
    CU_ASSERT_EQUAL(steepest_fall(step, STEPS), found);
}

static void test_none(void)
{
    LrFindStep step[STEPS];

    for (int i = 0; i < STEPS; i++)
        step[i] = (LrFindStep){ .lr = i + 1, .mean = 1 + 0.1 * i };
    CU_ASSERT_EQUAL(steepest_fall(step, STEPS), -1);
    for (int n = 1; n < 13; n++)
        CU_ASSERT_EQUAL(steepest_fall(step, n), -1);
}

DEFINE_SUITE(steepest_fall, { "a noisy divergence", test_divergence }, { "no fall", test_none });
