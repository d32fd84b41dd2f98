/* The expected lines of a suite of plans (tests/plans/expected.h). */
#include "tests/plans/expected.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Status add(Expected *e, const char *name, const char *result, Arena *a)
{
    if (e->n == e->cap) {
        const int cap = e->cap ? 2 * e->cap : 64;
        ExpectedLine *more = ARENA_NEW(a, ExpectedLine, cap);

        if (!more)
            return FAIL_NOMEM();
        if (e->n)
            memcpy(more, e->line, (size_t)e->n * sizeof *more);
        e->line = more;
        e->cap = cap;
    }
    e->line[e->n++] = (ExpectedLine){ arena_printf(a, "%s", name), arena_printf(a, "%s", result), false };
    return ST_OK;
}

Status expected_read(Expected *out, const char *path, Arena *a)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    Status st = ST_OK;

    *out = (Expected){ .path = path };
    while (f && !st && getline(&line, &room, f) >= 0) {
        char *result = strstr(line, " = ");

        line[strcspn(line, "\n")] = '\0';
        if (!result)
            continue;
        *result = '\0';
        st = add(out, line, result + 3, a);
    }
    free(line);
    if (f)
        fclose(f);
    return st;
}

ExpectedLine *expected_find(const Expected *e, const char *name)
{
    for (int i = 0; i < e->n; i++)
        if (!strcmp(e->line[i].name, name))
            return &e->line[i];
    return NULL;
}

Status expected_set(Expected *e, const char *name, const char *result, Arena *a)
{
    ExpectedLine *line = expected_find(e, name);

    if (!line) {
        TRY(add(e, name, result, a));
        e->line[e->n - 1].kept = true;
    } else {
        line->result = arena_printf(a, "%s", result);
    }
    e->changed = true;
    return ST_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ExpectedLine *)a)->name, ((const ExpectedLine *)b)->name);
}

Status expected_write(Expected *e)
{
    FILE *f = fopen(e->path, "w");

    if (!f)
        return FAIL(E_IO, "%s cannot be written", e->path);
    qsort(e->line, (size_t)e->n, sizeof *e->line, by_name);
    for (int i = 0; i < e->n; i++)
        if (e->line[i].kept)
            fprintf(f, "%s = %s\n", e->line[i].name, e->line[i].result);
    return fclose(f) ? FAIL(E_IO, "%s cannot be written", e->path) : ST_OK;
}
