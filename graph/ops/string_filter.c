/* StringNormalizer's filter.  Cases are Unicode's, character by character (the German sharp s has no single upper-case
 * letter and stays), as the C library has them for "C.UTF-8", whatever the process's locale.  Turkish and Azerbaijani
 * have other rules, which the C library knows only if the locale is installed; they are E_UNSUPPORTED. */
#include "graph/ops/string_filter.h"

#include <locale.h>
#include <stdlib.h>
#include <wctype.h>

#include "graph/base/foreign.h"

typedef enum { CASE_KEPT, CASE_LOWER, CASE_UPPER } Case;

struct TextFilter {
    locale_t locale;
    Case change, compare; /* the result's case; the case in which strings and stop words are compared */
    int n;                /* number of stop words */
    Text *word;           /* [n] sorted, in case `compare` */
    char *bytes;          /* their characters */
};

/* Converts the string to a case.  Returns the number of bytes of the result, which `to` receives unless it is NULL. */
static size_t convert(char *to, const TextFilter *f, Case target, Text t)
{
    size_t n = 0;

    for (size_t i = 0; i < t.n;) {
        const int len = t.bytes[i] ? utf8_length(t.bytes + i) : 0;
        uint32_t c = len ? utf8_code(t.bytes + i) : (unsigned char)t.bytes[i];

        if (len && target != CASE_KEPT)
            c = (uint32_t)(target == CASE_LOWER ? towlower_l((wint_t)c, f->locale) : towupper_l((wint_t)c, f->locale));
        n += utf8_encode(to ? to + n : NULL, c);
        i += len ? (size_t)len : 1;
    }
    return n;
}

static int by_text(const void *a, const void *b) { return text_compare(*(const Text *)a, *(const Text *)b); }

static Status take_words(TextFilter *f, const Attr *words)
{
    size_t bytes = 0;
    char *at;

    for (int i = 0; i < words->n; i++)
        bytes += convert(NULL, f, f->compare, text_of(words->strings[i]));
    f->n = words->n;
    f->word = calloc((size_t)f->n + 1, sizeof *f->word);
    if (!f->word || !(at = f->bytes = malloc(bytes + 1)))
        return FAIL_NOMEM();
    for (int i = 0; i < f->n; i++) {
        f->word[i] = (Text){ convert(at, f, f->compare, text_of(words->strings[i])), at };
        at += f->word[i].n;
    }
    qsort(f->word, (size_t)f->n, sizeof *f->word, by_text);
    return ST_OK;
}

/* Is it Turkish or Azerbaijani ("tr", "az_AZ.UTF-8"), where dotted and dotless i are two letters? */
static bool has_own_cases(const char *locale)
{
    return (!strncmp(locale, "tr", 2) || !strncmp(locale, "az", 2)) && (!locale[2] || strchr("_-.@", locale[2]));
}

static Status string_filter_check(const Graph *g, const Node *n, const TextFilter *f)
{
    const char *locale = node_attr(n, "locale") ? node_string(n, "locale") : "";
    const Attr *words = node_attr(n, "stopwords");

    if (has_own_cases(locale) && (f->change || f->compare))
        return FAIL(E_UNSUPPORTED, "%s: the cases of locale '%.40s' are not supported, only Unicode's", node_text(g, n),
                    locale);
    for (int i = 0; i < words->n; i++)
        if (!utf8_valid(words->strings[i]))
            return FAIL(E_MODEL, "%s: stop word %d is no UTF-8", node_text(g, n), i);
    return ST_OK;
}

Status text_filter_create(TextFilter **out, const Graph *g, const Node *n)
{
    const char change = *node_string(n, "case_change_action");
    TextFilter *f = calloc(1, sizeof *f);
    Status st;

    if (!f)
        return FAIL_NOMEM();
    f->change = change == 'L' ? CASE_LOWER : change == 'U' ? CASE_UPPER : CASE_KEPT;
    f->compare = node_int(n, "is_case_sensitive") ? CASE_KEPT : f->change ? f->change : CASE_LOWER;
    f->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    st = f->locale ? string_filter_check(g, n, f) : FAIL(E_INTERNAL, "the C library has no locale C.UTF-8");
    st = st ? st : take_words(f, node_attr(n, "stopwords"));
    if (st)
        text_filter_free(f);
    else
        *out = f;
    return st;
}

void text_filter_free(TextFilter *f)
{
    if (!f)
        return;
    if (f->locale)
        freelocale(f->locale);
    free(f->word);
    free(f->bytes);
    free(f);
}

Status text_filter_drops(bool *out, const TextFilter *f, Text t)
{
    char *own = f->n ? malloc(convert(NULL, f, f->compare, t) + 1) : NULL;
    Text key;

    *out = false;
    if (!f->n)
        return ST_OK;
    if (!own)
        return FAIL_NOMEM();
    key = (Text){ convert(own, f, f->compare, t), own };
    *out = bsearch(&key, f->word, (size_t)f->n, sizeof key, by_text) != NULL;
    free(own);
    return ST_OK;
}

bool text_filter_set(Tensor *to, int64_t i, Arena *a, const TextFilter *f, Text t)
{
    char *bytes = text_make(to, i, a, convert(NULL, f, f->change, t));

    if (bytes)
        convert(bytes, f, f->change, t);
    return bytes != NULL;
}
