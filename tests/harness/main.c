/* Runs all suites of one folder, those whose name is given, or with -NAME all but those; ends with "N passed, N
 * failed". $DPEXEC_TEST_LOCALE is the locale that the program has set meanwhile, as one that embeds the library may;
 * the system's own messages stay English, which tests expect. */
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int selected(const char *name, int argc, char **argv)
{
    int all = 1;

    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && !strcmp(argv[i] + 1, name))
            return 0;
        if (!strcmp(argv[i], name))
            return 1;
        all = all && argv[i][0] == '-';
    }
    return all;
}

static int add_suite(const TestSuite *s, int argc, char **argv)
{
    CU_pSuite suite;

    if (!selected(s->name, argc, argv))
        return 1;
    if (!(suite = CU_add_suite(s->name, NULL, NULL)))
        return 0;
    for (const TestCase *c = s->list ? s->list() : s->cases; c && c->name; c++)
        if (!CU_add_test(suite, c->name, c->run))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    const char *locale = getenv("DPEXEC_TEST_LOCALE");
    unsigned failed, run;

    if (locale && (!setlocale(LC_ALL, locale) || !setlocale(LC_MESSAGES, "C"))) {
        printf("there is no locale '%s' in $LOCPATH\n", locale);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    for (int i = 0; test_suites[i]; i++) {
        const TestSuite *found = test_suites[i]->load ? test_suites[i]->load() : NULL;

        if (!test_suites[i]->load && !add_suite(test_suites[i], argc, argv))
            return 1;
        for (; found && found->name; found++)
            if (!add_suite(found, argc, argv))
                return 1;
    }
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    run = CU_get_number_of_tests_run();
    failed = CU_get_number_of_tests_failed();
    CU_cleanup_registry();
    printf("\n%u passed, %u failed\n", run - failed, failed);
    return failed || !run;
}
