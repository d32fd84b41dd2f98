/* The summary and the table of trained and fixed tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/report.h"
#include "tests/harness/test.h"

/* A tensor of a report: `rows` by `columns`, or a row of `columns`, or a number. */
typedef struct {
    const char *name;
    int64_t rows, columns;
    bool trained, guess, by_file;
    DecisionKind kind;
} Row;

static Report *report_of(const Row *row, int n)
{
    Report *r = report_create();

    CU_ASSERT_PTR_NOT_NULL_FATAL(r);
    for (int i = 0; i < n; i++) {
        Shape s = row[i].rows ? SHAPE(row[i].rows, row[i].columns) : SHAPE(row[i].columns);
        const Value v = { .name = row[i].name, .dtype = DT_FLOAT32, .shape = arena_memdup(r->arena, &s, sizeof s) };

        CHECK_OK(report_decision(r, &v, row[i].trained, row[i].guess,
                                 row[i].by_file ? REASON_FIXED_BY_FILE : "a reason", row[i].kind));
    }
    return r;
}

static void check_summary(const char *expected, const Row *row, int n)
{
    Report *r = report_of(row, n);
    char text[REPORT_SUMMARY];

    report_summary(text, r);
    CHECK_STR(expected, text);
    report_free(r);
}

#define ROWS(...) (const Row[]){ __VA_ARGS__ }, (int)(sizeof((Row[]){ __VA_ARGS__ }) / sizeof(Row))

static void test_summary(void)
{
    check_summary("trains 0 parameters in 0 tensors", NULL, 0);
    check_summary("trains 1 parameter in 1 tensor", ROWS({ "a", 0, 1, .trained = true }));
    check_summary("trains 999 parameters in 1 tensor", ROWS({ "a", 0, 999, .trained = true }));
    check_summary("trains 1,000 parameters in 2 tensors",
                  ROWS({ "a", 0, 999, .trained = true }, { "b", 0, 1, .trained = true }));
    check_summary("trains 12,345,678 parameters in 1 tensor", ROWS({ "a", 2, 6172839, .trained = true }));
    check_summary("trains 123,456 parameters in 1 tensor", ROWS({ "a", 0, 123456, .trained = true }));
    check_summary(
        "trains 6 parameters in 1 tensor; 1 constant is fixed",
        ROWS({ "a", 2, 3, .trained = true }, { "b", 2, 3, .trained = false }, { "c", 0, 1, .trained = false }));
    check_summary(
        "trains 6 parameters in 1 tensor; 2 constants are fixed",
        ROWS({ "a", 2, 3, .trained = true }, { "b", 2, 3, .trained = false }, { "c", 0, 2, .trained = false }));
    /* Statistics, and what no output depends on, are no constants of the model. */
    check_summary("trains 6 parameters in 1 tensor",
                  ROWS({ "a", 2, 3, .trained = true }, { "mean", 0, 3, .kind = DECISION_STATISTIC },
                       { "dead", 0, 3, .kind = DECISION_UNUSED }));
    check_summary(
        "trains 2 parameters in 1 tensor; 2 constants are fixed, 1 because the run that wrote this file fixed them; "
        "--train "
        "'*' trains all",
        ROWS({ "a", 0, 2, .trained = true }, { "b", 2, 3, .by_file = true }, { "c", 0, 2, .trained = false }));
    check_summary(
        "trains 2 parameters in 1 tensor; 2 constants are fixed, all because the run that wrote this file fixed them; "
        "--train '*' trains all",
        ROWS({ "a", 0, 2, .trained = true }, { "b", 2, 3, .by_file = true }, { "c", 0, 2, .by_file = true }));
}

static void check_table(const char *expected, const Row *row, int n)
{
    Report *r = report_of(row, n);
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    CHECK_OK(report_print_parameters(r, f, false));
    fclose(f);
    CHECK_STR(expected, text);
    free(text);
    report_free(r);
}

/* The trained ones come first, in columns. */
static void test_table(void)
{
    check_table("fc.weight  [2,3]             trained  a reason\n"
                "b          [3]               trained  a reason (a guess)\n"
                "mask       [2,2]             fixed    the file says that it is not trained\n"
                "trains 9 parameters in 2 tensors; 1 constant is fixed, all because the run that wrote this file fixed "
                "them; --train "
                "'*' trains all\n",
                ROWS({ "mask", 2, 2, .by_file = true }, { "fc.weight", 2, 3, .trained = true },
                     { "b", 0, 3, .trained = true, .guess = true }));
    check_table("b     [3]               trained  a reason\ntrains 3 parameters in 1 tensor\n",
                ROWS({ "b", 0, 3, .trained = true }));
}

DEFINE_SUITE(parameter_report, { "summary", test_summary }, { "table", test_table });
