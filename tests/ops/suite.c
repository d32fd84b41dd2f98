/* One suite for each file of tests/ops/cases, one test for each line. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/test.h"
#include "tests/ops/check.h"

Status check_case(Check *k)
{
    TRY(check_reference(k));
    if (!k->compared)
        return FAIL(E_INTERNAL, "nothing was compared: give expected values (=>) or a float form");
    return ST_OK;
}

/* The line is the running test's name. */
static void run_line(void)
{
    const char *line = CU_get_current_test()->pName;
    Case *c = malloc(sizeof *c);
    Check k = { .c = c, .arena = arena_create() };

    if (c && k.arena && CHECK_OK(case_parse(c, line)))
        CHECK_OK(check_case(&k));
    arena_free(k.arena);
    free(c);
}

/* ---- reading the files ---- */

static char *trimmed(char *line)
{
    size_t n;

    line += strspn(line, " \t");
    for (n = strlen(line); n && strchr(" \t\r\n", line[n - 1]); n--)
        line[n - 1] = '\0';
    return line;
}

/* Whether this build has something to compare the case with; a line that cannot be read is a case, which fails. */
static bool here(const char *line)
{
#ifdef DPX_SIMULATION
    return line[0] != 0;
#else
    Case *c = malloc(sizeof *c);
    bool only_cuda = c && !case_parse(c, line) && c->cuda;

    free(c);
    return !only_cuda;
#endif
}

static TestCase *read_cases(const char *path)
{
    FILE *f = fopen(path, "r");
    TestCase *cases = calloc(1, sizeof *cases);
    char *line = NULL;
    size_t cap = 0, n = 0;

    while (f && cases && getline(&line, &cap, f) >= 0) {
        char *text = trimmed(line);
        TestCase *grown;

        if (!*text || *text == '#' || !here(text))
            continue;
        if (!(grown = realloc(cases, (n + 2) * sizeof *cases)))
            break;
        cases = grown;
        cases[n++] = (TestCase){ strdup(text), run_line };
        cases[n] = (TestCase){ NULL, NULL };
    }
    free(line);
    if (f)
        fclose(f);
    return cases;
}

static int is_case_file(const struct dirent *d)
{
    size_t n = strlen(d->d_name);

    return n > 4 && !strcmp(d->d_name + n - 4, ".txt");
}

static const TestSuite *load(void)
{
    static const char dir[] = SOURCE_DIR "/tests/ops/cases";
    struct dirent **entry = NULL;
    int n = scandir(dir, &entry, is_case_file, alphasort);
    static TestSuite *suites; /* lives as long as the program */

    suites = calloc((size_t)(n > 0 ? n : 0) + 1, sizeof *suites);
    for (int i = 0; i < n && suites; i++) {
        char path[4096];

        snprintf(path, sizeof path, "%s/%s", dir, entry[i]->d_name);
        suites[i].cases = read_cases(path);
        suites[i].name = strndup(entry[i]->d_name, strlen(entry[i]->d_name) - 4);
        free(entry[i]);
    }
    free(entry);
    return suites;
}

DEFINE_SUITES_FROM(cases, load);
