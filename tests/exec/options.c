/* What an option leaves behind that was refused, or given again. */
#include <string.h>

#include "exec/options.h"
#include "recipes/setting.h"
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

/* Each kind of field is written whole, and nothing beside it. */
typedef struct {
    char before, flag_guard;
    bool flag;
    char int_guard;
    int number;
    int after_number;
    int64_t wide;
    double real;
    enum { FIRST, SECOND } choice;
    int after_choice;
    bool two;
    char after_two;
    const char *text;
} Fields;

static void test_kinds(void)
{
    static const Setting s[] = {
        { .name = "flag", SETTING_OF(Fields, flag) },
        { .name = "number", .metavar = "N", SETTING_OF(Fields, number), .min = INT32_MIN, .max = INT32_MAX },
        { .name = "wide", .metavar = "N", SETTING_OF(Fields, wide), .min = -1e18, .max = 1e18 },
        { .name = "real", .metavar = "X", SETTING_OF(Fields, real), .min = -1, .max = 1 },
        { .name = "choice", .metavar = "C", SETTING_CHOICE_OF(Fields, choice, "first|second") },
        { .name = "two", .metavar = "C", SETTING_CHOICE_OF(Fields, two, "no|yes") },
        { .name = "text", .metavar = "T", SETTING_OF(Fields, text) },
    };
    static const SettingKind kinds[] = { SETTING_FLAG,   SETTING_INT,         SETTING_INT64, SETTING_REAL,
                                         SETTING_CHOICE, SETTING_CHOICE_FLAG, SETTING_TEXT };
    static const char *const texts[] = { "true", "-2147483648", "-123456789012345678", "0.25", "second", "yes", "t" };
    Fields got, want;
    Arena *a = arena_create();

    memset(&got, 0x5a, sizeof got);
    want = got;
    want.flag = want.two = true;
    want.number = INT32_MIN;
    want.wide = -123456789012345678;
    want.real = 0.25;
    want.choice = SECOND;
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
        CU_ASSERT_EQUAL(s[i].kind, kinds[i]);
        CHECK_OK(setting_set(&s[i], &got, a, texts[i]));
    }
    CHECK_STR("t", got.text);
    want.text = got.text;
    CU_ASSERT_FALSE(memcmp(&got, &want, sizeof got));
    CHECK_FAILS(E_INVALID, "--number: expected a whole number", setting_set(&s[1], &got, a, "2147483648"));
    CHECK_FAILS(E_INVALID, "--choice: expected first|second, found 'firs'", setting_set(&s[4], &got, a, "firs"));
    CU_ASSERT_FALSE(memcmp(&got, &want, sizeof got));
    arena_free(a);
}

DEFINE_SUITE(options, { "kinds of settings", test_kinds }, { "refused schedule", test_refused_schedule },
             { "schedule given again", test_schedule_given_again });
