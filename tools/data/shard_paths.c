/* Expansion of the names of shards (see the header). */
#include "tools/data/shard_paths.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graph/base/heap_array.h"

enum { MOST_DIGITS = 18 };

void shard_paths_free(ShardPaths *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->path[i]);
    free(s->path);
    *s = (ShardPaths){ 0 };
}

static Status add_path(ShardPaths *s, const char *path)
{
    char **grown;

    if (s->n == SHARDS_MOST)
        return FAIL(E_INVALID, "%s: more than %d shards", path, SHARDS_MOST);
    if (!(grown = heap_reserve(s->path, sizeof *grown, s->n + 1, &s->room)))
        return FAIL_NOMEM();
    s->path = grown;
    if (!(grown[s->n] = strdup(path)))
        return FAIL_NOMEM();
    s->n++;
    return ST_OK;
}

static int compare_paths(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Adds the files that a glob matches. */
static Status add_glob(ShardPaths *s, const char *pattern)
{
    glob_t found;
    const int failed = glob(pattern, GLOB_NOSORT, NULL, &found);
    Status st = ST_OK;

    if (failed == GLOB_NOMATCH)
        return FAIL(E_IO, "%s: there are no such files", pattern);
    if (failed)
        return failed == GLOB_NOSPACE ? FAIL_NOMEM() : FAIL(E_IO, "%s: cannot read the folder", pattern);
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_paths); /* glob's order is the locale's */
    for (size_t i = 0; i < found.gl_pathc && !st; i++)
        st = add_path(s, found.gl_pathv[i]);
    globfree(&found);
    return st;
}

/* Adds a file, those of a glob, or those in a folder. */
static Status add_files(ShardPaths *s, const char *path)
{
    struct stat about;
    const bool there = !stat(path, &about), folder = there && S_ISDIR(about.st_mode);
    char *inside;
    size_t n = 0;
    Status st;

    if (there && !folder)
        return add_path(s, path);
    if (!folder)
        return strpbrk(path, "*?[") ? add_glob(s, path) : add_path(s, path);
    if (!(inside = malloc(2 * strlen(path) + sizeof "/*.tar")))
        return FAIL_NOMEM();
    for (const char *at = path; *at; at++) { /* the folder's own name is no glob */
        if (strchr("*?[\\", *at))
            inside[n++] = '\\';
        inside[n++] = *at;
    }
    memcpy(inside + n, "/*.tar", sizeof "/*.tar");
    st = add_glob(s, inside);
    free(inside);
    return st == E_IO ? FAIL(E_IO, "%s: the folder holds no shards, which are called *.tar", path) : st;
}

/* Reads "FIRST..LAST" in text[0, n). */
static bool read_range(long long *first, long long *last, int *width, const char *text, size_t n)
{
    const size_t a = strspn(text, "0123456789"), b = a < n ? strspn(text + a + 2, "0123456789") : 0;

    if (!a || !b || a > MOST_DIGITS || b > MOST_DIGITS || strncmp(text + a, "..", 2) != 0 || a + 2 + b != n)
        return false;
    *first = strtoll(text, NULL, 10);
    *last = strtoll(text + a + 2, NULL, 10);
    *width = (*text == '0' && a > 1) || (text[a + 2] == '0' && b > 1) ? (int)(a > b ? a : b) : 0;
    return true;
}

/* The brace that closes the one at `open`; NULL: none does. */
static const char *closing(const char *open)
{
    int depth = 0;

    for (const char *at = open; *at; at++) {
        depth += (*at == '{') - (*at == '}');
        if (!depth)
            return at;
    }
    return NULL;
}

static Status expand(ShardPaths *s, const char *pattern, const char *from);

/* Expands the pattern with text[0, n) in place of its braces from `open` to `close`. */
static Status expand_with(ShardPaths *s, const char *pattern, const char *open, const char *close, const char *text,
                          size_t n)
{
    const size_t lead = (size_t)(open - pattern);
    char *one = malloc(lead + n + strlen(close) + 1);
    Status st;

    if (!one)
        return FAIL_NOMEM();
    memcpy(one, pattern, lead);
    memcpy(one + lead, text, n);
    strcpy(one + lead + n, close + 1);
    st = expand(s, one, one + lead);
    free(one);
    return st;
}

/* Expands the first braces behind `from`, and then the result; braces with neither a range nor a comma stay. */
static Status expand(ShardPaths *s, const char *pattern, const char *from)
{
    const char *open = strchr(from, '{'), *close = open ? closing(open) : NULL, *begin = open ? open + 1 : NULL;
    long long first, last;
    int width, depth = 0;
    bool commas = false;

    if (!close)
        return add_files(s, pattern);
    if (read_range(&first, &last, &width, begin, (size_t)(close - begin))) {
        for (long long i = first;; i += first < last ? 1 : -1) {
            char number[32];

            snprintf(number, sizeof number, "%0*lld", width, i);
            TRY(expand_with(s, pattern, open, close, number, strlen(number)));
            if (i == last)
                return ST_OK;
        }
    }
    for (const char *at = begin; at <= close; at++) {
        if (at == close ? commas : *at == ',' && !depth) {
            TRY(expand_with(s, pattern, open, close, begin, (size_t)(at - begin)));
            begin = at + 1;
            commas = true;
        }
        depth += (*at == '{') - (*at == '}');
    }
    return commas ? ST_OK : expand(s, pattern, open + 1);
}

Status shard_paths_find(ShardPaths *out, const char *pattern)
{
    struct stat about;
    ShardPaths s = { 0 };
    const Status st = stat(pattern, &about) ? expand(&s, pattern, pattern) : add_files(&s, pattern);

    if (st) {
        shard_paths_free(&s);
        return st;
    }
    *out = s;
    return ST_OK;
}
