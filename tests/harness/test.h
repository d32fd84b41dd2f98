/* A test suite: named tests, one DEFINE_SUITE per file of tests/<folder>/, registered by the build. */
#ifndef DPX_TEST_H
#define DPX_TEST_H

#include <CUnit/CUnit.h>

#include "graph/base/status.h"

typedef struct {
    const char *name;
    void (*run)(void);
} TestCase;
typedef struct TestSuite {
    const char *name;
    const TestCase *cases;
    const TestCase *(*list)(void);         /* makes the cases at run time; a nameless one ends them */
    const struct TestSuite *(*load)(void); /* makes several suites at run time; a nameless one ends them */
} TestSuite;

/* DEFINE_SUITE(arena, { "grows", test_grows }, { "aligns", test_aligns }) in column 0. */
#define DEFINE_SUITE(ident, ...) \
    const TestSuite suite_##ident = { #ident, (const TestCase[]){ __VA_ARGS__, { NULL, NULL } }, NULL, NULL }

/* DEFINE_SUITE_LIST(conformance, list_tests) in column 0.  A case learns its name from CU_get_current_test()->pName. */
#define DEFINE_SUITE_LIST(ident, make) const TestSuite suite_##ident = { #ident, NULL, (make), NULL }
/* DEFINE_SUITES_FROM(cases, load_suites) in column 0. */
#define DEFINE_SUITES_FROM(ident, make) const TestSuite suite_##ident = { #ident, NULL, NULL, (make) }

extern const TestSuite *const test_suites[]; /* generated; ends with NULL */

/* Fails the running test with a formatted message and goes on. */
#define TEST_FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
void test_fail(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Checks that a Status is ST_OK, and prints its message when it is not. */
#define CHECK_OK(e) test_ok(__FILE__, __LINE__, (e))
int test_ok(const char *file, int line, Status s);
/* Checks that a Status is `code` and that its message contains `text`. */
#define CHECK_FAILS(code, text, e) test_fails(__FILE__, __LINE__, (code), (text), (e))
int test_fails(const char *file, int line, Status code, const char *text, Status s);
#define CHECK_STR(expected, found) test_str(__FILE__, __LINE__, (expected), (found))
int test_str(const char *file, int line, const char *expected, const char *found);

#endif
