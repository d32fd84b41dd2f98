/* The note of a checkpoint says all of the run or nothing: what is missing in one is not compared. */
#include "tools/training/checkpoint_note.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/jsontext.h"
#include "tests/harness/test.h"

static const Flag no_flags[] = { { NULL, NULL, NULL } };
static const Command command = { "train", "", "", no_flags, ALL_OPTIONS, 0, 0, NULL };

static RunFacts facts_of(const Args *a)
{
    return (RunFacts){
        .args = a, .samples = 40, .batches = 4, .epochs_of_step = 1, .replicas = 2, .data = "d", .parameters = "p"
    };
}

/* The strings must live as long as what is parsed. */
static Status parse(Args *a, char *flag, char *value)
{
    char *argv[] = { flag, value };

    return args_parse(a, &command, 2, argv);
}

static int until_failure; /* of jansson's allocations, when positive */

static void *allocate(size_t n) { return until_failure > 0 && !--until_failure ? NULL : malloc(n); }

static void fail_allocation(int n)
{
    until_failure = n;
    json_set_alloc_funcs(n ? allocate : malloc, free);
}

/* Whichever allocation fails: a whole note or none, and no comparison of a part. */
static void test_no_memory(void)
{
    char flag[] = "--seed", three[] = "3", four[] = "4";
    Args was, is;
    RunFacts before, now;
    Position at;
    char *whole;
    int tried = 0;

    if (!CHECK_OK(parse(&was, flag, three)) || !CHECK_OK(parse(&is, flag, four)))
        return;
    before = facts_of(&was);
    now = facts_of(&is);
    whole = note_write(&before, (Position){ 1, 2, 0.1, 3, BEST_NONE });
    CU_ASSERT_FATAL(whole != NULL);
    for (bool reached = true; reached; tried++) {
        char *note;

        fail_allocation(tried + 1);
        note = note_write(&before, (Position){ 1, 2, 0.1, 3, BEST_NONE });
        reached = !until_failure;
        fail_allocation(0);
        CU_ASSERT(!note || !strcmp(note, whole));
        free(note);
    }
    CU_ASSERT(tried > 100);
    tried = 0;
    for (bool reached = true; reached; tried++) {
        Status st;

        fail_allocation(tried + 1);
        st = note_read(&at, &now, whole, 9, "manifest.json", NULL, NULL);
        reached = !until_failure;
        fail_allocation(0);
        CU_ASSERT(st == E_NOMEM || st == E_IO ||
                  (st == E_INVALID && strstr(status_message(), "--seed was '3', is '4'")));
    }
    CU_ASSERT(tried > 100);
    free(whole);
    args_free(&was);
    args_free(&is);
}

/* The sums of an epoch that goes on, to the bit. */
static void test_sums(void)
{
    const Position was = { 1, 2, 0.1 + 0.2, 1e-17 / 3, { "loss:min", 6, 2, 0.7 + 0.1, 1, 8 } };
    char flag[] = "--seed", three[] = "3", *note;
    RunFacts facts;
    Position at;
    Args args;

    if (!CHECK_OK(parse(&args, flag, three)))
        return;
    facts = facts_of(&args);
    note = note_write(&facts, was);
    CU_ASSERT_FATAL(note != NULL);
    CHECK_OK(note_read(&at, &facts, note, 9, "manifest.json", NULL, NULL));
    CU_ASSERT(at.epoch == 1 && at.batch == 2 && at.sum == was.sum && at.weight == was.weight);
    CU_ASSERT(at.best.step == 6 && at.best.epoch == 2 && at.best.value == was.best.value);
    CU_ASSERT(at.best.since == 1 && at.best.counted == 8);
    free(note);
    note = note_write(&facts, (Position){ .epoch = 1 });
    CU_ASSERT(note && !strstr(note, "loss_sum"));
    free(note);
    args_free(&args);
}

/* A best evaluation that no run of nine steps in its second epoch can have. */
static void test_impossible_best(void)
{
    static const BestSoFar wrong[] = {
        { "loss:min", 10, 2, 0.5, 1, 10 }, { "loss:min", 6, 3, 0.5, 1, 8 },  { "loss:min", 6, INT64_MAX, 0.5, 1, 8 },
        { "loss:min", 6, -1, 0.5, 1, 8 },  { "loss:min", 6, 2, 0.5, 11, 8 }, { "loss:min", 6, 2, 0.5, INT64_MAX, 8 },
        { "loss:min", 6, 2, 0.5, 1, 5 },   { "loss:min", 6, 2, 0.5, 1, 10 },
    };
    char flag[] = "--seed", three[] = "3";
    RunFacts facts;
    Position at;
    Args args;

    if (!CHECK_OK(parse(&args, flag, three)))
        return;
    facts = facts_of(&args);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *note = note_write(&facts, (Position){ .epoch = 1, .batch = 2, .best = wrong[i] });

        CU_ASSERT_FATAL(note != NULL);
        CU_ASSERT(note_read(&at, &facts, note, 9, "manifest.json", NULL, NULL) == E_IO &&
                  strstr(status_message(), "the note's best evaluation is none of 9 steps"));
        free(note);
    }
    args_free(&args);
}

static void check_text(const char *s, const char *expected)
{
    json_t *j = json_of_text(s);

    if (!j || strcmp(json_string_value(j), expected))
        TEST_FAIL("found '%s', expected '%s'", j ? json_string_value(j) : "(none)", expected);
    json_decref(j);
}

static void test_texts_that_are_no_utf_8(void)
{
    check_text("conv1.*", "conv1.*");
    check_text("\xc3\xa4", "\xc3\xa4");
    check_text("a\xff", "a\\xff");
    check_text("a\\xff", "a\\\\xff");
    check_text("\xc3(\\\xff\x80", "\\xc3(\\\\\\xff\\x80");
    check_text("", "");
}

DEFINE_SUITE(note, { "sums of an epoch", test_sums }, { "no memory", test_no_memory },
             { "an impossible best evaluation", test_impossible_best },
             { "texts that are no UTF-8", test_texts_that_are_no_utf_8 });
