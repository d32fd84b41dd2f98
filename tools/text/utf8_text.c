/* Valid UTF-8 and normalisation forms.
 *
 * Normalisation works on stretches from an ASCII character to the next behind others: ASCII characters begin such a
 * stretch because nothing composes with what is before them, and most of a text needs no work at all. */
#include "tools/text/utf8_text.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "graph/base/foreign.h"
#include "graph/base/heap_array.h"

enum { MARKS_MOST = 4096 /* they are sorted in quadratic time */ };
enum { BEFORE_FINALS = 0x11A7 /* utf8proc 2.8 drops it behind a syllable, as a final consonant of number 0 */ };

Status text_add(TextBuffer *b, const char *text, size_t n)
{
    char *grown;

    if (!n)
        return ST_OK;
    if (!(grown = heap_reserve(b->text, 1, b->n + n, &b->room)))
        return FAIL_NOMEM();
    b->text = grown;
    memcpy(grown + b->n, text, n);
    b->n += n;
    return ST_OK;
}

/* White_Space of Unicode. */
static bool is_white_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t white_space_ends(const char *text, size_t n)
{
    for (size_t at = n; at; n = at) {
        uint32_t c;

        for (at--; at && ((unsigned char)text[at] & 0xC0) == 0x80;)
            at--;
        c = (unsigned char)text[at] < 0x80 ? (unsigned char)text[at] : n - at > 3 ? 0 : utf8_code(text + at);
        if (!is_white_space(c))
            return n;
    }
    return n;
}

size_t white_space_begins(const char *text, size_t n)
{
    size_t at = 0;

    for (bool valid; at < n;) {
        const size_t len = utf8_step((const uint8_t *)text + at, n - at, &valid);

        if (!is_white_space(len == 1 ? (unsigned char)text[at] : !valid || len > 3 ? 0 : utf8_code(text + at)))
            break;
        at += len;
    }
    return at;
}

Status utf8_repair(const char **out, TextBuffer *b, const uint8_t *text, size_t *n, size_t *replaced, size_t *first)
{
    size_t done = 0; /* bytes of the text that are in the buffer */
    bool valid;

    *replaced = 0;
    b->n = 0;
    for (size_t i = 0, step; i < *n; i += step) {
        step = utf8_step(text + i, *n - i, &valid);
        if (valid)
            continue;
        if (!(*replaced)++)
            *first = i;
        TRY(text_add(b, (const char *)text + done, i - done));
        TRY(text_add(b, "\xEF\xBF\xBD", 3));
        done = i + step;
    }
    if (!*replaced) {
        *out = (const char *)text;
        return ST_OK;
    }
    TRY(text_add(b, (const char *)text + done, *n - done));
    *out = b->text;
    *n = b->n;
    return ST_OK;
}

/* The end of the stretch of characters beyond ASCII that begins at `from`. */
static Status stretch_end(size_t *out, const char *text, size_t n, size_t from)
{
    int marks = 0;

    for (*out = from; *out < n && (unsigned char)text[*out] >= 0x80;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t len = utf8proc_iterate((const uint8_t *)text + *out, (utf8proc_ssize_t)(n - *out), &c);

        if (c == BEFORE_FINALS && *out > from)
            return ST_OK;
        *out += (size_t)len;
        marks = utf8proc_get_property(c)->combining_class ? marks + 1 : 0;
        if (marks > MARKS_MOST)
            return FAIL(E_UNSUPPORTED, "more than %d combining marks behind one character, at byte %zu of a text",
                        MARKS_MOST, *out);
    }
    return ST_OK;
}

/* Normalises text[0, n) to `code`, which grows: first code points, then UTF-8; *bytes: of these. */
static Status normalise_stretch(int32_t **code, size_t *room, const char *text, size_t n, size_t *bytes, TextForm form)
{
    const utf8proc_option_t how = UTF8PROC_STABLE |
                                  (form == TEXT_NFC || form == TEXT_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                  (form == TEXT_NFKC || form == TEXT_NFKD ? UTF8PROC_COMPAT : 0);
    utf8proc_ssize_t codes;
    int32_t *grown;

    codes = utf8proc_decompose((const uint8_t *)text, (utf8proc_ssize_t)n, *code, (utf8proc_ssize_t)*room, how);
    if (codes >= 0 && (size_t)codes + 1 > *room) { /* reencode ends its text with a zero */
        if (!(grown = heap_reserve(*code, sizeof *grown, (size_t)codes + 1, room)))
            return FAIL_NOMEM();
        *code = grown;
        codes = utf8proc_decompose((const uint8_t *)text, (utf8proc_ssize_t)n, *code, (utf8proc_ssize_t)*room, how);
    }
    if (codes >= 0)
        codes = utf8proc_reencode(*code, codes, how);
    if (codes < 0)
        return FAIL(E_INTERNAL, "utf8proc: %s", utf8proc_errmsg(codes));
    *bytes = (size_t)codes;
    return ST_OK;
}

Status text_normalise(const char **out, TextBuffer *b, const char *text, size_t *n, TextForm form)
{
    size_t done = 0, room = 0; /* done: bytes of the text that are in the buffer */
    int32_t *code = NULL;
    Status st = ST_OK;

    b->n = 0;
    for (size_t i = 0; i < *n && !st;) {
        size_t end, from, bytes;

        if ((unsigned char)text[i] < 0x80) {
            i++;
            continue;
        }
        from = i && (unsigned char)text[i - 1] < 0x80 ? i - 1 : i;
        if ((st = stretch_end(&end, text, *n, i)) ||
            (st = normalise_stretch(&code, &room, text + from, end - from, &bytes, form)))
            break;
        if (bytes != end - from || memcmp(code, text + from, bytes)) {
            st = text_add(b, text + done, from - done);
            st = st ? st : text_add(b, (const char *)code, bytes);
            done = end;
        }
        i = end;
    }
    free(code);
    if (!st && !done) {
        *out = text;
        return ST_OK;
    }
    st = st ? st : text_add(b, text + done, *n - done);
    if (!st) {
        *out = b->text;
        *n = b->n;
    }
    return st;
}
