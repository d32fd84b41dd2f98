/* Approval tests of planning: for each plan of tests/plans/corpus.txt a line in tests/plans/expected holds some figures
 * and a digest of every section of its text.
 *
 * A difference says that a plan changed, not that it is wrong: whether plans are right is the matter of other suites,
 * which compute with them.  tests/plans.sh shows the text of a plan and how it differs from another build's, and writes
 * the lines anew once somebody has approved of the change.
 *
 * In the environment: PLANS_RENEW=1 writes the expected lines, PLANS_TEXT=DIR writes the texts into a folder. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/test.h"
#include "tests/plans/expected.h"
#include "tests/plans/operator_text.h"
#include "tests/plans/plan_text.h"

enum { RESULT = 2048 };
#ifdef DPX_SANITIZED
enum { EVERY = 10 }; /* of so many models one is planned */
#else
enum { EVERY = 1 };
#endif

static Corpus corpus; /* these live as long as the program */
static Expected *expected;
static Arena *arena;

/* ---- results ---- */

/* Appends the name and the digest of each section but the first, the flags; of a refusal, its message. */
static void add_digests(char *result, size_t size, const char *text)
{
    for (const char *at = strstr(text, "\n== "), *end; at; at = end) {
        const size_t used = strlen(result);
        const char *name = at + 4;
        uint64_t digest = 0xcbf29ce484222325u;

        end = strstr(name, "\n== ");
        if (!strncmp(name, "refused", 7)) {
            snprintf(result + used, size - used, " %.*s", (int)strcspn(strchr(name, '\n') + 1, "\n"),
                     strchr(name, '\n') + 1);
            continue;
        }
        for (const char *c = name; *c && c != end; c++)
            digest = (digest ^ (unsigned char)*c) * 0x100000001b3u;
        snprintf(result + used, size - used, " %.*s %08" PRIx32, (int)strcspn(name, " \n"), name,
                 (uint32_t)(digest ^ digest >> 32));
    }
}

static void write_result(char result[RESULT], const PlanFigures *f, const char *text)
{
    *result = '\0';
    if (f->graphs)
        snprintf(result, RESULT,
                 "%d nodes, %d collectives, %" PRId64 " FLOP, peak %" PRId64 " B, %d warning%s:", f->nodes,
                 f->collectives, f->flops, f->peak, f->warnings, f->warnings == 1 ? "" : "s");
    add_digests(result, RESULT, text);
}

/* Writes the text to PLANS_TEXT/NAME, where slashes and blanks are underscores. */
static void keep_text(const char *folder, const char *name, const char *text)
{
    char path[4096];
    size_t n = (size_t)snprintf(path, sizeof path, "%s/", folder);
    FILE *f;

    for (snprintf(path + n, sizeof path - n, "%s", name); path[n]; n++)
        if (strchr("/ ", path[n]))
            path[n] = '_';
    if (!(f = fopen(path, "w"))) {
        TEST_FAIL("%s cannot be written", path);
        return;
    }
    fputs(text, f);
    fclose(f);
}

/* ---- tests ---- */

static void compare(Expected *e, const char *name, const char *result)
{
    const ExpectedLine *line = expected_find(e, name);

    if (getenv("PLANS_RENEW"))
        CHECK_OK(expected_set(e, name, result, arena));
    else if (!line)
        TEST_FAIL("%s is not expected; found\n%s\n%s", name, result, "tests/plans.sh --renew adds it");
    else if (strcmp(line->result, result))
        TEST_FAIL("%s: expected\n%s\nfound\n%s\n(tests/plans.sh --show '%s', --against BUILD, --renew)", name,
                  line->result, result, name);
}

static void check_plan(Expected *e, const PlanModel *m, const PlanCase *c)
{
    const char *folder = getenv("PLANS_TEXT");
    char *text = NULL, result[RESULT];
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    const bool op = c->n_flag == 1 && !strcmp(c->flag[0].name, "operator");
    PlanFigures figures = { 0 };
    Status st = f ? ST_OK : FAIL_NOMEM();

    if (f) {
        st = op ? operator_case_text(f, m->path, c->flag[0].value) : plan_text(f, &figures, m->path, c);
        fclose(f);
    }
    if (CHECK_OK(st)) {
        write_result(result, &figures, text);
        compare(e, c->name, result);
        if (folder)
            keep_text(folder, c->name, text);
    }
    free(text);
}

/* The suite and the model that the running test names. */
static PlanSuite *running_suite(void)
{
    PlanSuite *s = corpus.suite;

    while (strcmp(s->name, CU_get_current_suite()->pName))
        s++;
    return s;
}

static void test_model(void)
{
    PlanSuite *s = running_suite();
    const char *only = getenv("PLANS_ONLY");

    for (int i = 0; i < s->n_model; i++)
        for (int k = 0; !strcmp(s->model[i].path, CU_get_current_test()->pName) && k < s->model[i].n_plan; k++)
            if (!only || !strcmp(only, s->model[i].plan[k].name))
                check_plan(&expected[s - corpus.suite], &s->model[i], &s->model[i].plan[k]);
}

/* Each expected line is a plan's. */
static void test_lines(void)
{
    const Expected *e = &expected[running_suite() - corpus.suite];

    for (int i = 0; i < e->n; i++)
        if (!e->line[i].kept && !getenv("PLANS_RENEW"))
            TEST_FAIL("%s: there is no plan '%s'", e->path, e->line[i].name);
}

/* ---- suites ---- */

static void renew(void)
{
    for (int i = 0; expected && i < corpus.n_suite; i++)
        if (expected[i].changed && expected_write(&expected[i]))
            fprintf(stderr, "%s\n", status_message());
    arena_free(arena);
}

static Status load_expected(Expected *e, const PlanSuite *s)
{
    TRY(expected_read(e, arena_printf(arena, "tests/plans/expected/%s.txt", s->name), arena));
    for (int i = 0; i < s->n_model; i++)
        for (int k = 0; k < s->model[i].n_plan; k++) {
            ExpectedLine *line = expected_find(e, s->model[i].plan[k].name);

            if (line)
                line->kept = true;
        }
    return ST_OK;
}

static Status load_suites(TestSuite *suites)
{
    TRY(corpus_read(&corpus, "tests/plans/corpus.txt", arena));
    expected = ARENA_NEW(arena, Expected, corpus.n_suite);
    for (int i = 0; i < corpus.n_suite; i++) {
        const PlanSuite *s = &corpus.suite[i];
        TestCase *cases = ARENA_NEW(arena, TestCase, s->n_model + 2);
        int n = 0;

        for (int k = 0; k < s->n_model; k += EVERY)
            cases[n++] = (TestCase){ s->model[k].path, test_model };
        cases[n] = (TestCase){ "each expected line has its plan", test_lines };
        suites[i] = (TestSuite){ .name = s->name, .cases = cases };
        TRY(load_expected(&expected[i], s));
    }
    return ST_OK;
}

static const TestSuite *load(void)
{
    static TestSuite suites[64]; /* a nameless one ends them */

    arena = arena_create();
    atexit(renew);
    if (chdir(SOURCE_DIR) || load_suites(suites)) {
        fprintf(stderr, "%s\n", status_message());
        exit(1);
    }
    return suites;
}

DEFINE_SUITES_FROM(plans, load);
