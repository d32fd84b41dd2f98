/* Normalisation of texts (see the header), with the results of tokenizers. */
#include "tools/text/normalizer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "graph/base/foreign.h"

enum { MOST_DEPTH = 8, I_WITH_DOT = 0x130, DOT_ABOVE = 0x307 };

void normalizer_free(Normalizer *z)
{
    for (int i = 0; i < z->n; i++) {
        split_pattern_free(z->step[i].pattern);
        charsmap_free(z->step[i].map);
        free(z->step[i].content);
    }
    for (int i = 0; i < 2; i++)
        free(z->buffer[i].text);
}

/* ---- steps ---- */

static Status add_code(TextBuffer *b, uint32_t c)
{
    char bytes[4];

    return text_add(b, bytes, utf8_encode(bytes, c));
}

/* Each character becomes its lower case by itself; of U+0130 that is two. */
static Status lowercase(TextBuffer *b, const char *text, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        utf8proc_int32_t c;

        len = (size_t)utf8proc_iterate((const uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        TRY(add_code(b, c == I_WITH_DOT ? 'i' : (uint32_t)utf8proc_tolower(c)));
        if (c == I_WITH_DOT)
            TRY(add_code(b, DOT_ABOVE));
    }
    return ST_OK;
}

/* Leaves combining marks out. */
static Status strip_accents(TextBuffer *b, const char *text, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        utf8proc_int32_t c;
        utf8proc_category_t kind;

        len = (size_t)utf8proc_iterate((const uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        kind = utf8proc_category(c);
        if (kind != UTF8PROC_CATEGORY_MN && kind != UTF8PROC_CATEGORY_MC && kind != UTF8PROC_CATEGORY_ME)
            TRY(text_add(b, text + i, len));
    }
    return ST_OK;
}

/* The text without white space at its ends. */
static const char *strip(const NormStep *s, const char *text, size_t *n)
{
    const size_t before = s->left ? white_space_begins(text, *n) : 0;

    text += before;
    *n -= before;
    if (s->right)
        *n = white_space_ends(text, *n);
    return text;
}

static Status replace(TextBuffer *b, const NormStep *s, const char *text, size_t n)
{
    for (size_t at = 0, start, end; at < n; at = end) {
        TRY(split_pattern_next(s->pattern, text, n, at, &start, &end));
        TRY(text_add(b, text + at, start - at));
        if (start < n)
            TRY(text_add(b, s->content, strlen(s->content)));
    }
    return ST_OK;
}

static Status apply(const char **out, TextBuffer *b, const NormStep *s, const char *text, size_t *n)
{
    Status st;

    b->n = 0;
    switch (s->kind) {
    case NORM_FORM: return text_normalise(out, b, text, n, s->form);
    case NORM_MAP: return charsmap_apply(out, b, s->map, text, n);
    case NORM_STRIP: *out = strip(s, text, n); return ST_OK;
    case NORM_LOWERCASE: st = lowercase(b, text, *n); break;
    case NORM_STRIP_ACCENTS: st = strip_accents(b, text, *n); break;
    case NORM_REPLACE: st = replace(b, s, text, *n); break;
    default: st = *n ? text_add(b, s->content, strlen(s->content)) : ST_OK; st = st ? st : text_add(b, text, *n);
    }
    *out = b->text;
    *n = b->n;
    return st;
}

Status normalizer_apply(const char **out, Normalizer *z, const char *text, size_t *n)
{
    int next = 0; /* the buffer without the text */

    for (int i = 0; i < z->n && *n; i++) {
        TextBuffer *b = &z->buffer[next];
        const char *to;

        TRY(apply(&to, b, &z->step[i], text, n));
        if (to == b->text)
            next = !next;
        text = to;
    }
    *out = text;
    return ST_OK;
}

/* ---- tokenizer.json ---- */

static Status read_replace(NormStep *s, const json_t *j, Problems *wrong)
{
    const json_t *pattern = json_object_get(j, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *literal = json_string_value(json_object_get(pattern, "String"));
    const char *content = json_string_value(json_object_get(j, "content"));
    Status st;

    if ((!regex && !literal) || !content) {
        problems_add(wrong, "normalizer Replace without pattern and content");
        return ST_OK;
    }
    if (!(s->content = strdup(content)))
        return FAIL_NOMEM();
    st = split_pattern_create(&s->pattern, regex ? regex : literal, !regex);
    if (st && st != E_NOMEM)
        problems_add(wrong, "normalizer Replace: %s", status_message());
    return st == E_NOMEM ? st : ST_OK;
}

static Status read_prepend(NormStep *s, const json_t *j, Problems *wrong)
{
    const char *content = json_string_value(json_object_get(j, "prepend"));

    if (!content)
        problems_add(wrong, "normalizer Prepend without a text");
    else if (!(s->content = strdup(content)))
        return FAIL_NOMEM();
    return ST_OK;
}

static Status read_map(NormStep *s, const json_t *j, Problems *wrong)
{
    const char *map = json_string_value(json_object_get(j, "precompiled_charsmap"));
    const Status st = charsmap_create(&s->map, map ? map : "");

    if (st && st != E_NOMEM)
        problems_add(wrong, "normalizer Precompiled: %s", status_message());
    return st == E_NOMEM ? st : ST_OK;
}

/* Finds the kind of a normalizer by its type; false: dpexec lacks it. */
static bool find_kind(NormStep *s, const char *type)
{
    static const struct {
        const char *type;
        NormStep step;
    } known[] = { { "NFC", { .kind = NORM_FORM, .form = TEXT_NFC } },
                  { "NFD", { .kind = NORM_FORM, .form = TEXT_NFD } },
                  { "NFKC", { .kind = NORM_FORM, .form = TEXT_NFKC } },
                  { "NFKD", { .kind = NORM_FORM, .form = TEXT_NFKD } },
                  { "Lowercase", { .kind = NORM_LOWERCASE } },
                  { "StripAccents", { .kind = NORM_STRIP_ACCENTS } },
                  { "Strip", { .kind = NORM_STRIP } },
                  { "Replace", { .kind = NORM_REPLACE } },
                  { "Prepend", { .kind = NORM_PREPEND } },
                  { "Precompiled", { .kind = NORM_MAP } } };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(type, known[i].type)) {
            *s = known[i].step;
            return true;
        }
    return false;
}

static Status read_step(Normalizer *z, const json_t *j, Problems *wrong, int depth)
{
    const json_t *parts = json_object_get(j, "normalizers");
    const char *type = json_string_value(json_object_get(j, "type"));
    NormStep *s = &z->step[z->n];

    type = type ? type : "without a type";
    if (!strcmp(type, "Sequence") && json_is_array(parts) && depth < MOST_DEPTH) {
        for (size_t i = 0; i < json_array_size(parts); i++)
            TRY(read_step(z, json_array_get(parts, i), wrong, depth + 1));
        return ST_OK;
    }
    if (z->n == NORMALIZERS_MOST || !find_kind(s, type)) {
        problems_add(wrong,
                     "normalizer %.40s (expected NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, "
                     "Prepend, Precompiled or a Sequence of at most %d)",
                     type, NORMALIZERS_MOST);
        return ST_OK;
    }
    z->n++;
    s->left = json_is_true(json_object_get(j, "strip_left"));
    s->right = json_is_true(json_object_get(j, "strip_right"));
    z->cuts |= s->kind == NORM_STRIP_ACCENTS || (s->kind == NORM_STRIP && s->left) ||
               (s->kind == NORM_REPLACE && !json_string_length(json_object_get(j, "content")));
    switch (s->kind) {
    case NORM_REPLACE: return read_replace(s, j, wrong);
    case NORM_PREPEND: return read_prepend(s, j, wrong);
    case NORM_MAP: return read_map(s, j, wrong);
    default: return ST_OK;
    }
}

Status normalizer_read(Normalizer *z, const json_t *j, Problems *wrong)
{
    return j && !json_is_null(j) ? read_step(z, j, wrong, 0) : ST_OK;
}
