/* The official tests of ONNX, all of them, and those of data/, made of them (decided.py).
 *
 * Every operator that the graph has is one test here, which fails when an official test of it does not pass but for
 * those that exceptions.txt names (a test belongs to all operators of its model; it must pass when the graph has all of
 * them).  Whatever it does not have may be unsupported, by a clear error, but never wrong: one more test per folder of
 * data.  What was found is written to conformance.txt in the build folder. */
#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "graph/base/mapped.h"
#include "graph/onnx/onnx.h"
#include "graph/ir/op.h"
#include "tests/conformance/official.h"
#include "tests/harness/test.h"

enum { MAX_OFFICIAL = 8192, MAX_LINES = 512, MAX_FOLDERS = 32, MAX_MISTAKEN = 16 };

static Official *tests;                /* MAX_OFFICIAL */
static int n_test, n_package, n_newer; /* of those: of ONNX_TESTDATA, of ONNX_TESTS */
static struct {
    char op[64];
    char except[2048];
} exception[MAX_LINES];
static int n_exception;
static struct {
    char test[128];
    unsigned long long hash;
} mistaken[MAX_MISTAKEN];
static int n_mistaken;
static char types_only[2048], may_refuse[2048]; /* patterns of tests */
static struct {
    char name[64];
} folders[MAX_FOLDERS];
static int n_folder;

/* ---- exceptions.txt ---- */

static bool listed(const char *patterns, const char *test)
{
    char copy[2048], *save = NULL;
    const char *base = strchr(test, '/') + 1;

    snprintf(copy, sizeof copy, "%s", patterns);
    for (char *p = strtok_r(copy, " \n", &save); p; p = strtok_r(NULL, " \n", &save))
        if (!fnmatch(p, base, 0))
            return true;
    return false;
}

static void read_exceptions(void)
{
    FILE *f = fopen(SOURCE_DIR "/tests/conformance/exceptions.txt", "r");
    char line[2048];

    while (f && fgets(line, sizeof line, f) && n_exception < MAX_LINES) {
        size_t len = strcspn(line, " \n");
        const char *rest = line + len;

        if (*line == '#' || !len)
            continue;
        if (!strncmp(line, "mistaken ", 9)) {
            n_mistaken += n_mistaken < MAX_MISTAKEN &&
                          sscanf(rest, "%llx %127s", &mistaken[n_mistaken].hash, mistaken[n_mistaken].test) == 2;
            continue;
        }
        if (!strncmp(line, "types-only ", 11) || !strncmp(line, "may-refuse ", 11)) {
            snprintf(*line == 't' ? types_only : may_refuse, sizeof types_only, "%s", rest);
            continue;
        }
        snprintf(exception[n_exception].op, sizeof exception[0].op, "%.*s", (int)len, line);
        rest = strstr(rest, " except ");
        snprintf(exception[n_exception++].except, sizeof exception[0].except, "%s", rest ? rest + 8 : "");
    }
    if (f)
        fclose(f);
}

/* What tests of the operator are excepted; NULL: the graph does not have it. */
static const char *exceptions_of(const char *op)
{
    for (int i = 0; i < n_exception; i++)
        if (!strcmp(exception[i].op, op))
            return exception[i].except;
    return op_find(NULL, op) ? "" : NULL;
}

/* Must it pass?  Models of an opset before ours are refused. */
static bool required(const Official *t)
{
    if (listed(may_refuse, t->name) || !t->n_op || t->n_op > OFFICIAL_OPS || (t->opset && t->opset < ONNX_OPSET_MIN))
        return false;
    for (int i = 0; i < t->n_op; i++) {
        const char *except = exceptions_of(t->op[i]);

        if (!except || listed(except, t->name))
            return false;
    }
    return true;
}

/* ---- finding and running ---- */

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* Is the expected output one that ONNX has taken back? */
static bool is_mistaken(const char *test, const char *set)
{
    char path[640];
    bool found = false;
    Mapped m;

    for (int i = 0; i < n_mistaken; i++) {
        if (strcmp(mistaken[i].test, test))
            continue;
        snprintf(path, sizeof path, "%s/output_0.pb", set);
        if (mapped_open(&m, path))
            return false;
        found = XXH3_64bits(m.data, m.size) == mistaken[i].hash;
        mapped_close(&m);
    }
    if (found)
        printf("%s is not run: its expected output is known to be mistaken\n", test);
    return found;
}

static void run_folder(const char *data, const char *folder)
{
    struct dirent **entry;
    char path[256];
    int n;

    snprintf(path, sizeof path, "%s/%s", data, folder);
    n = scandir(path, &entry, NULL, by_name);
    for (int i = 0; i < n; i++) {
        Official *t = &tests[n_test];
        char model[600];

        snprintf(t->name, sizeof t->name, "%.40s/%.80s", folder, entry[i]->d_name);
        snprintf(t->path, sizeof t->path, "%s/%.200s", path, entry[i]->d_name);
        snprintf(model, sizeof model, "%s/test_data_set_0", t->path);
        if (entry[i]->d_name[0] != '.' && n_test < MAX_OFFICIAL && !access(model, R_OK) &&
            !is_mistaken(entry[i]->d_name, model)) {
            official_run(t, listed(types_only, t->name));
            n_test++;
        }
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
}

static void add_folder(const char *name)
{
    for (int i = 0; i < n_folder; i++)
        if (!strcmp(folders[i].name, name))
            return;
    if (n_folder < MAX_FOLDERS)
        snprintf(folders[n_folder++].name, sizeof folders[0].name, "%.60s", name);
}

static void run_data(const char *data)
{
    struct dirent **entry;
    int n = *data ? scandir(data, &entry, NULL, by_name) : -1;

    for (int i = 0; i < n; i++) {
        int before = n_test;

        if (entry[i]->d_name[0] != '.')
            run_folder(data, entry[i]->d_name);
        if (n_test > before)
            add_folder(entry[i]->d_name);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
}

/* ---- the tests ---- */

static void report(const Official *t) { TEST_FAIL("%s: %s", t->name, t->outcome == PASSED ? "passed" : t->text); }

static bool is_required_test_of(const Official *t, const char *op)
{
    for (int k = 0; k < t->n_op && k < OFFICIAL_OPS; k++)
        if (!strcmp(t->op[k], op))
            return required(t);
    return false;
}

/* Without data nothing would be tested, and nothing fail. */
static void test_data(void)
{
    if (!n_package)
        TEST_FAIL("there are no tests in '%s' (DPX_ONNX_TESTDATA)", ONNX_TESTDATA);
    if (*ONNX_TESTS && !n_newer)
        TEST_FAIL("there are no tests in '%s' (DPX_ONNX_TESTS)", ONNX_TESTS);
}

static void test_operator(void)
{
    for (int i = 0; i < n_test; i++)
        if (is_required_test_of(&tests[i], CU_get_current_test()->pName) && tests[i].outcome != PASSED)
            report(&tests[i]);
}

/* A test for each operator of which there is an official one that must pass. */
static int list_operator(TestCase *cases, int n, const char *op)
{
    for (int i = 0; i < n_test; i++)
        if (is_required_test_of(&tests[i], op)) {
            cases[n] = (TestCase){ op, test_operator };
            return n + 1;
        }
    return n;
}

static void test_nothing_wrong(void)
{
    const char *folder = strrchr(CU_get_current_test()->pName, ' ') + 1;
    size_t len = strlen(folder);

    for (int i = 0; i < n_test; i++)
        if (!strncmp(tests[i].name, folder, len) && tests[i].name[len] == '/' && tests[i].outcome == WRONG &&
            !required(&tests[i]))
            report(&tests[i]);
}

static void test_round_trip(void)
{
    const char *folder = strrchr(CU_get_current_test()->pName, ' ') + 1;
    size_t len = strlen(folder);

    for (int i = 0; i < n_test; i++)
        if (!strncmp(tests[i].name, folder, len) && tests[i].name[len] == '/' && !official_round_trip(&tests[i]))
            TEST_FAIL("%s: %s", tests[i].name, tests[i].text);
}

static void test_interpreted(void)
{
    const char *folder = strrchr(CU_get_current_test()->pName, ' ') + 1;
    size_t len = strlen(folder);

    for (int i = 0; i < n_test; i++)
        if (!strncmp(tests[i].name, folder, len) && tests[i].name[len] == '/' &&
            !official_interpret(&tests[i], listed(types_only, tests[i].name)))
            TEST_FAIL("%s: %s", tests[i].name, tests[i].text);
}

static void write_results(void)
{
    static const char *const word[] = { "passed", "WRONG", "refused", "unsupported" };
    FILE *f = fopen(BUILD_DIR "/conformance.txt", "w");
    int count[4] = { 0 };

    for (int i = 0; i < n_test; i++) {
        count[tests[i].outcome]++;
        if (f)
            fprintf(f, "%-11s %s%s %s %s\n", word[tests[i].outcome], tests[i].name,
                    required(&tests[i]) ? " (required)" : "", tests[i].n_op == 1 ? tests[i].op[0] : "", tests[i].text);
    }
    if (f)
        fclose(f);
    printf("official ONNX tests: %d, of them %d passed, %d wrong, %d refused by another error, %d unsupported\n",
           n_test, count[PASSED], count[WRONG], count[REFUSED], count[UNSUPPORTED]);
}

static const TestCase *list(void)
{
    static TestCase cases[2 * MAX_LINES + 3 * MAX_FOLDERS + 2];
    static char names[3 * MAX_FOLDERS][96];
    int n = 0;

    if (!(tests = calloc(MAX_OFFICIAL, sizeof *tests)))
        return NULL;
    read_exceptions();
    run_data(ONNX_TESTDATA);
    n_package = n_test;
    run_data(ONNX_TESTS);
    n_newer = n_test - n_package;
    run_data(SOURCE_DIR "/tests/conformance/data");
    write_results();
    cases[n++] = (TestCase){ "the official tests are there", test_data };
    for (int i = 0; i < n_exception; i++)
        n = list_operator(cases, n, exception[i].op);
    for (int i = 0; i < op_list_len; i++)
        if (!op_list[i]->domain && !*exceptions_of(op_list[i]->name))
            n = list_operator(cases, n, op_list[i]->name);
    for (int i = 0; i < n_folder; i++) {
        snprintf(names[3 * i], sizeof names[0], "no wrong answer in %s", folders[i].name);
        cases[n++] = (TestCase){ names[3 * i], test_nothing_wrong };
        snprintf(names[3 * i + 1], sizeof names[0], "round trip of %s", folders[i].name);
        cases[n++] = (TestCase){ names[3 * i + 1], test_round_trip };
        snprintf(names[3 * i + 2], sizeof names[0], "interpreted: %s", folders[i].name);
        cases[n++] = (TestCase){ names[3 * i + 2], test_interpreted };
    }
    return cases;
}

DEFINE_SUITE_LIST(conformance, list);
