/* Regular expressions of tokenizer.json files: translation of the Oniguruma syntax, bounded matching.
 *
 * The patterns in use need little of the syntax.  A construct passes only if both libraries give it one meaning after
 * the translation:
 *
 *     \s      \p{White_Space}     PCRE2's own \s also matches U+180E
 *     \p{Han} \p{sc:Han}          PCRE2 would match script extensions, too
 *     \u3040  \x{3040}
 *
 * The two libraries know different versions of Unicode; characters that only one of them knows may split otherwise. */
#include "tools/text/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    STEPS = 100000,         /* of backtracking from one place; usual patterns need a few */
    STARTS = 4096,          /* bytes: places that one call tries */
    CALLS = 64,             /* between two looks at the clock */
    SECONDS = 10,           /* of processor time, from which on the rate is judged */
    BYTES_A_SECOND = 10000, /* the least; usual patterns read tens of millions */
    JIT_STACK = 1 << 20,    /* bytes */
    PATTERN_MOST = 1 << 16  /* bytes */
};

struct SplitPattern {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    unsigned calls;
    size_t read;    /* bytes since the pattern was made */
    double seconds; /* of processor time, in calls whose time was taken */
};

/* ---- translation ---- */

/* A pattern on its way: `in` is read up to `at`, and `out` written. */
typedef struct {
    const char *in;
    size_t at;
    char *out;
    size_t n;
} Translation;

static void put(Translation *t, const char *text, size_t n)
{
    memcpy(t->out + t->n, text, n);
    t->n += n;
}

static Status refuse(const Translation *t, size_t n)
{
    return FAIL(E_UNSUPPORTED, "'%.*s' at byte %zu of the pattern is not supported", (int)n, t->in + t->at, t->at + 1);
}

static bool is_property(const char *name, size_t n)
{
    static const char *const binary[] = { "Any",         "Alphabetic",  "Lowercase", "Uppercase",
                                          "White_Space", "Ideographic", "Emoji",     "Extended_Pictographic" };

    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        if (strlen(binary[i]) == n && !memcmp(binary[i], name, n))
            return true;
    return n <= 2; /* general categories: L, Lu */
}

/* \p{NAME}, \p{^NAME}, \P{NAME} or \pL. */
static Status translate_property(Translation *t)
{
    const char *from = t->in + t->at, *end;
    const size_t named = from[2] == '{' ? 3 + (from[3] == '^') : 2;
    size_t n;

    if (from[2] != '{') {
        put(t, from, 3);
        t->at += from[2] ? 3 : 2;
        return ST_OK;
    }
    n = strspn(from + named, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_");
    end = from + named + n;
    if (!n || *end != '}')
        return refuse(t, 3);
    put(t, from, named);
    if (!is_property(from + named, n))
        put(t, "sc:", 3);
    put(t, from + named, n + 1);
    t->at += named + n + 1;
    return ST_OK;
}

static Status translate_escape(Translation *t)
{
    const char *from = t->in + t->at, c = from[1];
    const bool hex4 = c == 'u' && strspn(from + 2, "0123456789abcdefABCDEF") >= 4;
    size_t n = 2;

    if (c == 'p' || c == 'P')
        return translate_property(t);
    if (c == 's' || c == 'S') {
        put(t, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}", 15);
    } else if (hex4) {
        put(t, "\\x{", 3);
        put(t, from + 2, 4);
        put(t, "}", 1);
        n = 6;
    } else if (c == 'x' && from[2] == '{') {
        n = 3 + strspn(from + 3, "0123456789abcdefABCDEF");
        if (n == 3 || from[n] != '}')
            return refuse(t, 3);
        put(t, from, ++n);
    } else if (c == 'x' && strspn(from + 2, "0123456789abcdefABCDEF") >= 2) {
        put(t, from, n = 4);
    } else if (c && (strchr("dDrntf", c) || (c > ' ' && c < 0x7f && !strchr("_", c) && !(c >= '0' && c <= '9') &&
                                             !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z')))) {
        put(t, from, 2);
    } else {
        return refuse(t, c && (unsigned char)c < 0x80 ? 2 : 1);
    }
    t->at += n;
    return ST_OK;
}

/* What begins with "(?": groups, lookaround, and the option i for a group. */
static Status translate_group(Translation *t)
{
    static const char *const known[] = { "(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?-i:" };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(t->in + t->at, known[i], strlen(known[i]))) {
            put(t, known[i], strlen(known[i]));
            t->at += strlen(known[i]);
            return ST_OK;
        }
    if (!t->at && !strncmp(t->in, "(?i)", 4)) { /* elsewhere its reach differs */
        put(t, "(?i)", 4);
        t->at += 4;
        return ST_OK;
    }
    return refuse(t, 3);
}

/* A character class, from its bracket to the closing one. */
static Status translate_class(Translation *t)
{
    const char *in = t->in;

    put(t, "[", 1);
    if (in[++t->at] == '^')
        put(t, in + t->at++, 1);
    if (in[t->at] == ']')
        return refuse(t, 1);
    while (in[t->at] && in[t->at] != ']') {
        if (in[t->at] == '\\') {
            TRY(translate_escape(t));
        } else if (in[t->at] == '[' || !strncmp(in + t->at, "&&", 2)) {
            return refuse(t, in[t->at] == '[' ? 1 : 2);
        } else {
            put(t, in + t->at++, 1);
        }
    }
    if (!in[t->at])
        return FAIL(E_INVALID, "a class of the pattern has no ]");
    put(t, in + t->at++, 1);
    return ST_OK;
}

/* Writes the pattern in PCRE2's syntax; `out` has room for 8 times the pattern. */
static Status translate(Translation *t)
{
    while (t->in[t->at]) {
        const char *from = t->in + t->at;

        if (*from == '\\') {
            TRY(translate_escape(t));
        } else if (*from == '[') {
            TRY(translate_class(t));
        } else if (*from == '(' && (from[1] == '?' || from[1] == '*')) {
            TRY(translate_group(t));
        } else if (*from == '}' && (from[1] == '+' || from[1] == '?')) {
            return refuse(t, 2); /* {1,3}+ is not possessive in Oniguruma, {3}? not lazy */
        } else {
            put(t, from, 1);
            t->at++;
        }
    }
    t->out[t->n] = '\0';
    return ST_OK;
}

/* ---- matching ---- */

void split_pattern_free(SplitPattern *p)
{
    if (!p)
        return;
    pcre2_match_data_free(p->match);
    pcre2_match_context_free(p->context);
    pcre2_jit_stack_free(p->stack);
    pcre2_code_free(p->code);
    free(p);
}

/* Compiles a pattern in PCRE2's own syntax. */
static Status compile(SplitPattern *p, const char *pattern, uint32_t options)
{
    unsigned char text[160];
    PCRE2_SIZE at = 0;
    int code = 0;
    uint32_t empty = 0;

    p->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_USE_OFFSET_LIMIT | options,
                            &code, &at, NULL);
    if (!p->code) {
        pcre2_get_error_message(code, text, sizeof text);
        return code == PCRE2_ERROR_NOMEMORY
                   ? FAIL_NOMEM()
                   : FAIL(E_INVALID, "the pattern is refused at '%.20s': %s", pattern + at, text);
    }
    pcre2_pattern_info(p->code, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty)
        return FAIL(E_UNSUPPORTED, "the pattern matches the empty text");
    p->match = pcre2_match_data_create(1, NULL);
    p->context = pcre2_match_context_create(NULL);
    if (!p->match || !p->context)
        return FAIL_NOMEM();
    pcre2_set_match_limit(p->context, STEPS);
    pcre2_set_heap_limit(p->context, 64 << 10); /* KiB */
    if (!pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) &&
        (p->stack = pcre2_jit_stack_create(32 << 10, JIT_STACK, NULL)))
        pcre2_jit_stack_assign(p->context, NULL, p->stack);
    return ST_OK;
}

Status split_pattern_create(SplitPattern **out, const char *pattern, bool literal)
{
    Translation t = { .in = pattern };
    SplitPattern *p;
    Status st;

    if (strlen(pattern) > PATTERN_MOST)
        return FAIL(E_UNSUPPORTED, "the pattern has %zu bytes, at most %d are supported", strlen(pattern),
                    PATTERN_MOST);
    p = calloc(1, sizeof *p);
    t.out = malloc(8 * strlen(pattern) + 1);
    if (!p || !t.out)
        st = FAIL_NOMEM();
    else if (literal)
        st = *pattern ? compile(p, pattern, PCRE2_LITERAL) : FAIL(E_UNSUPPORTED, "the pattern is empty");
    else if (!(st = translate(&t)))
        st = compile(p, t.out, PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
    free(t.out);
    if (st)
        split_pattern_free(p);
    else
        *out = p;
    return st;
}

Status split_pattern_next(SplitPattern *p, const char *text, size_t n, size_t from, size_t *start, size_t *end)
{
    int found = PCRE2_ERROR_NOMATCH;

    for (size_t limit; from < n && found == PCRE2_ERROR_NOMATCH; from = limit) {
        const bool timed = !(p->calls++ % CALLS);
        const clock_t began = timed ? clock() : 0;

        for (limit = n - from > STARTS ? from + STARTS : n; limit < n && ((unsigned char)text[limit] & 0xC0) == 0x80;)
            limit++;
        pcre2_set_offset_limit(p->context, limit);
        found = pcre2_match(p->code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, p->match, p->context);
        if (found < 0 && found != PCRE2_ERROR_NOMATCH)
            return found == PCRE2_ERROR_NOMEMORY
                       ? FAIL_NOMEM()
                       : FAIL(E_INVALID, "the pattern needs more than %d steps at byte %zu of a text (PCRE2 error %d)",
                              STEPS, from, found);
        p->read += (found > 0 ? pcre2_get_ovector_pointer(p->match)[1] : limit) - from;
        if (timed)
            p->seconds += CALLS * ((double)(clock() - began) / CLOCKS_PER_SEC);
        if (timed && p->seconds > SECONDS && (double)p->read < p->seconds * BYTES_A_SECOND)
            return FAIL(E_INVALID, "the pattern reads fewer than %d bytes a second", BYTES_A_SECOND);
    }
    *start = found > 0 ? pcre2_get_ovector_pointer(p->match)[0] : n;
    *end = found > 0 ? pcre2_get_ovector_pointer(p->match)[1] : n;
    return ST_OK;
}
