/* The expected lines of a suite of plans: tests/plans/expected/SUITE.txt, a line "NAME: RESULT" for each plan. */
#ifndef DPX_TESTS_PLANS_EXPECTED_H
#define DPX_TESTS_PLANS_EXPECTED_H

#include "graph/base/arena.h"

typedef struct {
    const char *name, *result;
    bool kept; /* a plan of this name exists */
} ExpectedLine;

typedef struct {
    const char *path;
    ExpectedLine *line;
    int n, cap;
    bool changed;
} Expected;

/* Reads the lines; a file that is not there has none. */
Status expected_read(Expected *out, const char *path, Arena *a) CHECKED;
/* The line of this name, or NULL. */
ExpectedLine *expected_find(const Expected *e, const char *name);
/* Adds a line or replaces it. */
Status expected_set(Expected *e, const char *name, const char *result, Arena *a) CHECKED;
/* Writes the lines that are kept, sorted by name. */
Status expected_write(Expected *e) CHECKED;

#endif
