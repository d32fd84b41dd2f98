/* The main function of every test program:
 *
 *     test_ops                  runs all suites of the folder
 *     test_ops softmax gemm     runs two suites
 *     test_ops softmax:3        runs the third case of a suite; softmax:NAME runs the case of that name
 *     test_ops -softmax -gemm:2 runs all but a suite and a case
 *     test_ops --list           prints the suites, and how many cases each has; --list softmax prints the suite's cases
 *
 * A name that the program does not have is an error (exit status 2). A run prints how long each suite took if that was
 * more than a second, and ends with "N passed, N failed". $DPEXEC_TEST_LOCALE names a locale that the program sets
 * first, as a program that embeds the library may; the system's own messages stay English, which tests expect. */
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <CUnit/Basic.h>

#include "tests/harness/test.h"

void test_fail(const char *file, int line, const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    CU_assertImplementation(CU_FALSE, (unsigned)line, text, file, "", CU_FALSE);
}

int test_ok(const char *file, int line, Status s)
{
    if (s)
        test_fail(file, line, "%s: %s [%s]", status_name(s), status_message(), status_trace());
    else
        CU_assertImplementation(CU_TRUE, (unsigned)line, "", file, "", CU_FALSE);
    return s == ST_OK;
}

int test_fails(const char *file, int line, Status code, const char *text, Status s)
{
    int good = s == code && strstr(status_message(), text);

    if (!good)
        test_fail(file, line, "expected %s with \"%s\", found %s: %s", status_name(code), text, status_name(s),
                  status_message());
    else
        CU_assertImplementation(CU_TRUE, (unsigned)line, "", file, "", CU_FALSE);
    return good;
}

int test_str(const char *file, int line, const char *expected, const char *found)
{
    int good = found && !strcmp(expected, found);

    if (!good)
        test_fail(file, line, "expected:\n%s\nfound:\n%s", expected, found ? found : "(null)");
    else
        CU_assertImplementation(CU_TRUE, (unsigned)line, "", file, "", CU_FALSE);
    return good;
}

/* One suite, with its cases in an array that a nameless one ends. */
typedef struct {
    const char *name;
    const TestCase *cases;
    double seconds; /* of processors, in this process and its children */
} Loaded;

static Loaded *loaded;
static size_t loaded_len;

static int load_suite(const TestSuite *s)
{
    Loaded *more = realloc(loaded, (loaded_len + 1) * sizeof *loaded);

    if (!more)
        return 0;
    loaded = more;
    loaded[loaded_len++] = (Loaded){ s->name, s->list ? s->list() : s->cases, 0 };
    return 1;
}

static int load_suites(void)
{
    for (int i = 0; test_suites[i]; i++) {
        const TestSuite *found = test_suites[i]->load ? test_suites[i]->load() : NULL;

        if (!test_suites[i]->load && !load_suite(test_suites[i]))
            return 0;
        for (; found && found->name; found++)
            if (!load_suite(found))
                return 0;
    }
    return 1;
}

static size_t count_cases(const Loaded *suite)
{
    size_t n = 0;

    while (suite->cases && suite->cases[n].name)
        n++;
    return n;
}

/* Whether `word` is SUITE or SUITE:CASE for this suite; *rest is then CASE, or NULL. */
static int names_suite(const char *word, const Loaded *suite, const char **rest)
{
    const size_t n = strlen(suite->name);

    if (strncmp(word, suite->name, n) || (word[n] && word[n] != ':'))
        return 0;
    *rest = word[n] ? word + n + 1 : NULL;
    return 1;
}

/* Whether `text` names the suite's case `i`: by its name, or by its number from 1. */
static int names_case(const char *text, const Loaded *suite, size_t i)
{
    char number[24];

    snprintf(number, sizeof number, "%zu", i + 1);
    return !strcmp(text, suite->cases[i].name) || !strcmp(text, number);
}

/* Whether an argument names a suite or case of the program, with or without a - in front. */
static int is_known(const char *word)
{
    const char *rest;

    for (size_t i = 0; i < loaded_len; i++) {
        if (!names_suite(word + (*word == '-'), &loaded[i], &rest))
            continue;
        if (!rest)
            return 1;
        for (size_t c = 0; c < count_cases(&loaded[i]); c++)
            if (names_case(rest, &loaded[i], c))
                return 1;
    }
    return 0;
}

static int is_selected(const Loaded *suite, size_t i, int argc, char **argv)
{
    int chosen = 0, all = 1;
    const char *rest;

    for (int a = 1; a < argc; a++) {
        const int without = argv[a][0] == '-';

        all = all && without;
        if (!names_suite(argv[a] + without, suite, &rest) || (rest && !names_case(rest, suite, i)))
            continue;
        if (without)
            return 0;
        chosen = 1;
    }
    return chosen || all;
}

static int add_suite(const Loaded *s, int argc, char **argv)
{
    CU_pSuite suite = NULL;

    for (size_t i = 0; i < count_cases(s); i++) {
        if (!is_selected(s, i, argc, argv))
            continue;
        if (!suite && !(suite = CU_add_suite(s->name, NULL, NULL)))
            return 0;
        if (!CU_add_test(suite, s->cases[i].name, s->cases[i].run))
            return 0;
    }
    return 1;
}

static int print_list(int argc, char **argv)
{
    for (size_t i = 0; i < loaded_len; i++)
        if (argc < 3)
            printf("%-24s %zu\n", loaded[i].name, count_cases(&loaded[i]));
    for (int a = 2; a < argc; a++)
        for (size_t i = 0; i < loaded_len; i++)
            for (size_t c = 0; !strcmp(argv[a], loaded[i].name) && c < count_cases(&loaded[i]); c++)
                printf("%s:%zu %s\n", argv[a], c + 1, loaded[i].cases[c].name);
    return 0;
}

static double processor_seconds(void)
{
    struct rusage own, children;

    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    return (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec + children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
           1e-6 * (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec + children.ru_utime.tv_usec +
                           children.ru_stime.tv_usec);
}

/* The time of the suite of that name, which begins negative: minus what the process had taken before. */
static void add_seconds(const CU_pSuite suite, double seconds)
{
    for (size_t i = 0; i < loaded_len; i++)
        if (!strcmp(loaded[i].name, suite->pName))
            loaded[i].seconds += seconds;
}

static void suite_begins(const CU_pSuite suite) { add_seconds(suite, -processor_seconds()); }

static void suite_ends(const CU_pSuite suite, const CU_pFailureRecord failure)
{
    (void)failure;
    add_seconds(suite, processor_seconds());
}

static int run_suites(int argc, char **argv)
{
    unsigned failed, run;

    if (CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    for (size_t i = 0; i < loaded_len; i++)
        if (!add_suite(&loaded[i], argc, argv))
            return 1;
    CU_set_suite_start_handler(suite_begins);
    CU_set_suite_complete_handler(suite_ends);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    run = CU_get_number_of_tests_run();
    failed = CU_get_number_of_tests_failed();
    CU_cleanup_registry();
    printf("\n");
    for (size_t i = 0; i < loaded_len; i++)
        if (loaded[i].seconds > 1)
            printf("suite %s: %.1f s of a processor\n", loaded[i].name, loaded[i].seconds);
    printf("%u passed, %u failed\n", run - failed, failed);
    return failed || !run;
}

int main(int argc, char **argv)
{
    const char *locale = getenv("DPEXEC_TEST_LOCALE");
    const int list = argc > 1 && !strcmp(argv[1], "--list");
    int wrong = 0, status;

    if (locale && (!setlocale(LC_ALL, locale) || !setlocale(LC_MESSAGES, "C"))) {
        printf("there is no locale '%s' in $LOCPATH\n", locale);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!load_suites())
        return 1;
    for (int i = 1 + list; i < argc; i++) {
        if (!is_known(argv[i]))
            fprintf(stderr, "%s: there is no suite or case '%s' (--list prints the suites)\n", argv[0], argv[i]);
        wrong = wrong || !is_known(argv[i]);
    }
    status = wrong ? 2 : list ? print_list(argc, argv) : run_suites(argc, argv);
    free(loaded);
    return status;
}
