/* What an option leaves behind that was refused, or given again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/train/options.h"
#include "graph/recipes/setting.h"
#include "tests/exec/torch_schedules.h"
#include "tests/harness/test.h"
#include "passes/options/batch.h"
#include "passes/options/collectives.h"
#include "passes/options/inputs.h"
#include "passes/options/recipes.h"
#include "passes/options/update.h"

static void check_rate(const Options *o, int64_t step, double expected)
{
    if (options_group_rate(o, 0, step, NULL) != expected)
        TEST_FAIL("the rate of step %lld is %g, expected %g", (long long)step, options_group_rate(o, 0, step, NULL),
                  expected);
}

/* A refused "step:x" once left the schedule at steps of 0 length, and the rate to a division by zero. */
static void test_refused_schedule(void)
{
    static const char *const wrong[] = { "step:x",       "step:0",         "step",       "step:5:2", "step:5:0.5:1",
                                         "cosine:2",     "linear:x",       "constant:1", "poly:0",   "restarts",
                                         "exponential",  "exponential:0",  "multi-step", "wsd:0",    "wsd:1.5",
                                         "wsd:0.1:sqrt", "inverse-sqrt:-1" };
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

/* PyTorch's rates and transformers', without those of a warm-up. */
static void test_torch_schedules(void)
{
    Options *o = options_create();
    char warmup[8];

    CHECK_OK(options_set(o, "lr", "0.5"));
    CHECK_OK(options_set(o, "total-steps", "20"));
    for (size_t i = 0; i < sizeof torch_schedules / sizeof *torch_schedules; i++) {
        snprintf(warmup, sizeof warmup, "%d", torch_schedules[i].warmup);
        CHECK_OK(options_set(o, "warmup-steps", warmup));
        CHECK_OK(options_set(o, "lr-schedule", torch_schedules[i].schedule));
        for (int step = torch_schedules[i].warmup; step < 20; step++) {
            const double want = torch_schedules[i].rate[step], got = options_group_rate(o, 0, step, NULL);

            if (!(fabs(got - want) <= 1e-14))
                TEST_FAIL("%s, step %d: %.17g, PyTorch has %.17g", torch_schedules[i].schedule, step, got, want);
        }
    }
    CHECK_OK(options_set(o, "warmup-steps", "0"));
    CHECK_OK(options_set(o, "lr-schedule", "one-cycle:0"));
    for (int step = 0; step < 30; step++) /* no way up, and steps behind the end */
        CU_ASSERT(options_group_rate(o, 0, step, NULL) > 0 && options_group_rate(o, 0, step, NULL) <= 0.5);
    options_free(o);
}

/* PyTorch's rates, when the same is observed. */
static void test_torch_plateaus(void)
{
    Options *o = options_create();

    CHECK_OK(options_set(o, "lr", "0.5"));
    CHECK_OK(options_set(o, "warmup-steps", "4"));
    for (size_t i = 0; i < sizeof torch_plateaus / sizeof *torch_plateaus; i++) {
        ScheduleState state = SCHEDULE_BEGIN;
        const bool max = strstr(torch_plateaus[i].schedule, ":max") != NULL;

        CHECK_OK(options_set(o, "lr-schedule", torch_plateaus[i].schedule));
        CHECK_OK(options_check(o));
        CU_ASSERT_EQUAL(options_observe(o), max ? OBSERVES_METRIC : OBSERVES_LOSS);
        for (size_t k = 0; k < sizeof torch_seen / sizeof *torch_seen; k++) {
            const double seen = torch_seen[k] * torch_plateaus[i].sign, want = torch_plateaus[i].rate[k];
            double got;

            options_observed(o, &state, max ? -7 : seen, max ? seen : -7);
            got = options_group_rate(o, 0, 4, &state);
            if (!(fabs(got - want) <= 1e-14))
                TEST_FAIL("%s, observation %zu: %.17g, PyTorch has %.17g", torch_plateaus[i].schedule, k, got, want);
            if (options_group_rate(o, 0, 1, &state) != 0.25)
                TEST_FAIL("%s, observation %zu: the warm-up has another rate", torch_plateaus[i].schedule, k);
        }
    }
    CHECK_OK(options_set(o, "lr-schedule", "plateau:0.1:2:1"));
    CHECK_FAILS(E_INVALID, "a relative BY is less than 1, found 1", options_check(o));
    CHECK_FAILS(E_INVALID, "expected", options_set(o, "lr-schedule", "plateau:1"));
    CHECK_FAILS(E_INVALID, "expected rel|abs", options_set(o, "lr-schedule", "plateau:0.1:2:0.1:no"));
    options_free(o);
}

static void test_rising_steps(void)
{
    static const char *const wrong[] = { "multi-step:0",
                                         "multi-step:5,5",
                                         "multi-step:5,3",
                                         "multi-step:3,",
                                         "multi-step:3,x",
                                         "multi-step:-1",
                                         "multi-step:99999999999999999999" };
    Options *o = options_create();

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_OK(options_set(o, "lr-schedule", wrong[i]));
        CHECK_FAILS(E_INVALID, "expected rising steps", options_check(o));
    }
    CHECK_OK(options_set(o, "lr-schedule", "restarts:1:1000000"));
    CU_ASSERT(options_group_rate(o, 0, INT64_MAX, NULL) >= 0);
    options_free(o);
}

/* Flags belong to what is chosen: its default holds, whatever the order they are given in. */
static void test_flags_of_recipes(void)
{
    Options *o = options_create(), *copy = NULL;

    CHECK_OK(options_set(o, "momentum", "0.5"));
    CHECK_OK(options_set(o, "optimizer", "adam"));
    CHECK_FAILS(E_INVALID, "--optimizer adam does not have: --momentum", options_check(o));
    CHECK_OK(options_set(o, "optimizer", "sgd"));
    CHECK_OK(options_check(o));
    CU_ASSERT(strstr(recipe_options(&o->build)->settings, "momentum=0.5;") != NULL);
    CHECK_FAILS(E_INVALID, "--momentum: expected a number", options_set(o, "momentum", "2"));
    CHECK_STR("0.5", options_get(o, "momentum"));
    CHECK_OK(options_set(o, "momentum", "0"));
    CHECK_OK(options_set(o, "nesterov", "true"));
    CHECK_FAILS(E_INVALID, "--nesterov needs --momentum above 0", options_check(o));
    CHECK_OK(options_set(o, "momentum", "0.5"));
    CHECK_OK(options_check(o));
    CHECK_OK(options_set(o, "loss", "huber:0.5"));
    CHECK_FAILS(E_INVALID, "--loss huber: expected a number above 0", options_set(o, "loss", "huber:0"));
    CHECK_FAILS(E_INVALID, "expected huber[:DELTA], found 'huber:1:2'", options_set(o, "loss", "huber:1:2"));
    CHECK_STR("huber:0.5", options_get(o, "loss"));
    CHECK_OK(options_set(o, "loss", "output:a:b"));
    CHECK_STR("a:b", recipe_options(&o->build)->loss_args);
    CHECK_OK(options_set(o, "ignore-index", "3"));
    if (CHECK_OK(options_copy(&copy, o))) {
        CU_ASSERT(recipe_options(&copy->build)->loss == recipe_options(&o->build)->loss &&
                  recipe_options(&copy->build)->optimizer == recipe_options(&o->build)->optimizer);
        CHECK_STR(recipe_options(&o->build)->settings, recipe_options(&copy->build)->settings);
    }
    CHECK_FAILS(E_INVALID, "--loss output:a:b does not have: --ignore-index", options_check(o));
    options_free(copy);
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

/* Of a file with a wrong line none stays, nor does a wrong group. */
static void test_refused_groups(void)
{
    static const char text[] = "head.*:lr=1\n# a remark\nbody.*:lr=x\n";
    char path[] = "/tmp/dpexec-options-XXXXXX";
    Options *o = options_create(), *copy = NULL;
    int fd = mkstemp(path);

    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
    close(fd);
    CHECK_OK(options_set(o, "group", "stem.*:lr=0.5"));
    CHECK_FAILS(E_INVALID, ":3: ", options_set(o, "groups", path));
    CHECK_FAILS(E_INVALID, "expected a number", options_set(o, "group", "body.*:lr=x"));
    CU_ASSERT_EQUAL(o->n_group, 1);
    CU_ASSERT_EQUAL(update_options(&o->build)->n_group, 1);
    CHECK_STR("stem.*:lr=0.5", options_get(o, "group"));
    CHECK_STR("", options_get(o, "groups"));
    if (CHECK_OK(options_copy(&copy, o)))
        CU_ASSERT_EQUAL(copy->n_group, 1);
    options_free(copy);
    CHECK_OK(truncate(path, 12) ? FAIL(E_IO, "truncate") : ST_OK);
    CHECK_OK(options_set(o, "groups", path));
    CHECK_STR("stem.*:lr=0.5;head.*:lr=1", options_get(o, "group"));
    unlink(path);
    options_free(o);
}

/* --state needs a buffer and a value; a refused text leaves the list as it was. */
static void test_refused_states(void)
{
    static const char *const wrong[] = { "", "=", "=x", "x=", "x" };
    Options *o = options_create();

    CHECK_OK(options_set(o, "state", "a=b"));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_FAILS(E_INVALID, "expected BUFFER=VALUE", options_set(o, "state", wrong[i]));
    CHECK_STR("a=b", options_get(o, "state"));
    options_free(o);
}

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

/* The text in a block of just its size, so that a sanitizer sees what is read behind it. */
static Status set_exactly(Options *o, const char *name, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *block = malloc(size);
    Status st;

    if (!block)
        return E_NOMEM;
    memcpy(block, text, size);
    st = options_set(o, name, block);
    free(block);
    return st;
}

/* What is refused is told by the option's name, and leaves the option as it was. */
static void try_text(Options *o, const char *name, const char *text)
{
    char *before = strdup(options_get(o, name));

    if (set_exactly(o, name, text) && (!before || !*status_message() || strcmp(before, options_get(o, name)) != 0))
        TEST_FAIL("--%s '%s' was refused and has changed: %.200s", name, text, status_message());
    free(before);
}

/* The text, and what is left of it when it is cut off at each place. */
static void try_cuts(const char *name, const char *text)
{
    Options *o = options_create();
    char cut[64];

    for (size_t n = strlen(text) + 1; n-- > 0;) {
        snprintf(cut, sizeof cut, "%.*s", (int)n, text);
        try_text(o, name, cut);
    }
    options_free(o);
}

static void test_exact_texts(void)
{
    static const char *const text[] = { "5,5,5,1,2",
                                        "-1",
                                        "0x1e5",
                                        "1.5e-3",
                                        ",,",
                                        "1,,1",
                                        "::1:",
                                        "x=[1,2,y]",
                                        "x=y:1;z=lr:2",
                                        "=1",
                                        "#;=",
                                        "cpu*2,cpu:1",
                                        "cuda:0-3",
                                        "sim:x.json*2",
                                        "step:10:0.5",
                                        "poly:2:1:0",
                                        "one-cycle:0.3",
                                        "multi-step:1,2:0.5",
                                        "output:x:y",
                                        "balanced",
                                        "1.5.5",
                                        "k",
                                        "12G",
                                        "groups:3",
                                        "bias=lr=0.1",
                                        "adamw",
                                        "auto",
                                        "cross-entropy",
                                        "*",
                                        "[a-",
                                        "\\",
                                        "float16",
                                        "x=1x2x3",
                                        "a=b=c",
                                        "true" };

    for (int i = 0; i < options_count(); i++) {
        for (size_t k = 0; k < sizeof text / sizeof *text; k++)
            try_cuts(options_at(i).name, text[k]);
        try_cuts(options_at(i).name, options_at(i).fallback);
    }
}

/* Rows of numbers that are no costs were taken for the names of files, and read behind their end. */
static void test_links(void)
{
    static const char *const wrong[] = { "1",        "5,5,5",     "1,2,3,4",   "1,2,0,1",
                                         "-1,2,3,1", "1,2,3,1,1", "nan,1,1,1", "inf,1,1,0" };
    Options *o = options_create();

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_FAILS(E_INVALID, "--links: expected a file, auto, or SECONDS", set_exactly(o, "links", wrong[i]));
    CU_ASSERT_PTR_NULL(o->links);
    CHECK_OK(set_exactly(o, "links", "1e-5,2e-10,3e12,1"));
    if (!collective_options(&o->build)->sum_cost)
        TEST_FAIL("%s", "no costs");
    else
        CU_ASSERT(collective_options(&o->build)->sum_cost->seconds == 1e-5 &&
                  collective_options(&o->build)->sum_cost->per_byte == 2e-10 &&
                  collective_options(&o->build)->sum_cost->flops == 3e12 &&
                  collective_options(&o->build)->sum_cost->beside);
    CHECK_OK(set_exactly(o, "links", "5,5,links.json"));
    CU_ASSERT_PTR_NULL(collective_options(&o->build)->sum_cost);
    CHECK_STR("5,5,links.json", o->links);
    options_free(o);
}

/* Names may hold the character that joins values. */
static void test_input_values(void)
{
    Options *o = options_create();
    const InputOptions *in = input_options(&o->build);

    CHECK_OK(options_set_input_values(o, "a;b=1;c=2,true;;d=-1e3"));
    CU_ASSERT_FATAL(in->n_input_value == 3);
    CHECK_STR("a;b", in->input_value[0].name);
    CHECK_STR("1", in->input_value[0].text);
    CHECK_STR("c", in->input_value[1].name);
    CHECK_STR("2,true", in->input_value[1].text);
    CHECK_STR(";d", in->input_value[2].name);
    CHECK_STR("-1e3", in->input_value[2].text);
    CHECK_STR("a;b=1;c=2,true;;d=-1e3", options_get(o, "input-value"));
    options_free(o);
}

/* A scalar, no samples and 8 axes are shapes; what is no size, or more of it than memory has, is refused as a whole. */
static void test_input_shapes(void)
{
    static const struct {
        const char *text;
        int rank;
        int64_t last;
    } right[] = {
        { "x=", 0, 0 }, { "x=0", 1, 0 }, { "x=0,3", 2, 3 }, { "x=1,2,3,4,5,6,7,8", 8, 8 }, { "a=b=2", 1, 2 }
    };
    static const char *const wrong[] = { "x",
                                         "=2",
                                         "x=a",
                                         "x=2,",
                                         "x=,2",
                                         "x=2,,3",
                                         "x=2;3",
                                         "x=2.5",
                                         "x=-1",
                                         "x=1,-1",
                                         "x= ",
                                         "x=99999999999999999999",
                                         "x=4294967296,4294967296",
                                         "x=1,2,3,4,5,6,7,8,9" };
    Options *o = options_create();
    int n = 0;

    for (size_t i = 0; i < sizeof right / sizeof *right; i++, n++)
        if (CHECK_OK(options_set(o, "input-shape", right[i].text))) {
            const BatchOptions *b = batch_options(&o->build);
            const Shape *s = &b->input_shape[b->n_input_shape - 1].shape;

            if (s->rank != right[i].rank || (s->rank && s->dim[s->rank - 1] != right[i].last))
                TEST_FAIL("%s has %d axes", right[i].text, s->rank);
        }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_FAILS(E_INVALID, "expected NAME=DIM,DIM,...", options_set(o, "input-shape", wrong[i]));
    CU_ASSERT_EQUAL(batch_options(&o->build)->n_input_shape, n); /* nothing of what was refused */
    options_free(o);
}

DEFINE_SUITE(options, { "every option from blocks of just its text's size", test_exact_texts }, { "links", test_links },
             { "PyTorch's schedules", test_torch_schedules }, { "PyTorch's plateaus", test_torch_plateaus },
             { "multi-step's steps rise", test_rising_steps }, { "flags of recipes", test_flags_of_recipes },
             { "kinds of settings", test_kinds }, { "refused schedule", test_refused_schedule },
             { "schedule given again", test_schedule_given_again }, { "refused groups", test_refused_groups },
             { "refused states", test_refused_states }, { "values of inputs from their text", test_input_values },
             { "shapes of inputs", test_input_shapes });
