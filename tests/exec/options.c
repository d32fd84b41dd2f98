/* What an option leaves behind that was refused, or given again. */
#include "exec/options.h"
#include "tests/harness/test.h"

static void check_rate(const Options *o, int64_t step, double expected)
{
    if (options_learning_rate(o, step) != expected)
        TEST_FAIL("the rate of step %lld is %g, expected %g", (long long)step, options_learning_rate(o, step),
                  expected);
}

/* A refused "step:x" once left the schedule at steps of 0 length, and the rate to a division by zero. */
static void test_refused_schedule(void)
{
    static const char *const wrong[] = {
        "step:x",   "step:0",       "step",
        "step:5:2", "step:5:0.5:1", "cosine:2",
        "linear:x", "constant:1",   "cosine:0.50000000000000000000000000000000000000000000000000000000000000001"
    };
    Options *o = options_create();

    CHECK_OK(options_set(o, "lr", "1"));
    CHECK_OK(options_set(o, "lr-schedule", "step:10:0.5"));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_FAILS(E_INVALID, "expected", options_set(o, "lr-schedule", wrong[i]));
        CHECK_STR("step:10:0.5", options_get(o, "lr-schedule"));
        check_rate(o, 9, 1);
        check_rate(o, 20, 0.25);
    }
    options_free(o);
}

/* What the schedule before said of factor and end does not hold for the next, nor for a copy. */
static void test_schedule_given_again(void)
{
    Options *o = options_create(), *copy = NULL;

    CHECK_OK(options_set(o, "lr", "1"));
    CHECK_OK(options_set(o, "total-steps", "10"));
    CHECK_OK(options_set(o, "lr-schedule", "linear:0.5"));
    check_rate(o, 10, 0.5);
    CHECK_OK(options_set(o, "lr-schedule", "linear"));
    check_rate(o, 10, 0);
    if (CHECK_OK(options_copy(&copy, o)))
        check_rate(copy, 10, 0);
    options_free(copy);
    CHECK_OK(options_set(o, "lr-schedule", "step:10:0.5"));
    CHECK_OK(options_set(o, "lr-schedule", "step:10"));
    check_rate(o, 10, 0.1);
    options_free(o);
}

DEFINE_SUITE(options, { "refused schedule", test_refused_schedule },
             { "schedule given again", test_schedule_given_again });
