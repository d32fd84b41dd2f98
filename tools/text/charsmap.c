/* Maps of characters (see the header).
 *
 * A map is a trie as a double array, in the form of the library Darts-clone, and texts that end with a zero:
 *
 *     bytes of the trie: uint32 | units: uint32 each | texts
 *
 * A unit has a byte (bits 0 to 7 and 31), says whether a text ends at it (bit 8), and how far away its children are
 * (bits 10 to 30, times 256 where bit 9 is set).  A leaf has the place of its text.
 *
 * tokenizers looks up grapheme clusters of less than 6 bytes, and the single characters of others.  It takes the
 * *shortest* beginning of the cluster that the trie has, and drops the rest. */
#include "tools/text/charsmap.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "graph/base/foreign.h"

enum { CLUSTER_LESS = 6 };

struct Charsmap {
    uint8_t *data;
    size_t units, n; /* of the trie; bytes of the texts */
    const char *texts;
    bool stays[128]; /* ASCII characters that the map does not change */
};

static uint32_t number_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t unit_at(const Charsmap *m, size_t i) { return number_at(m->data + 4 + 4 * i); }

static size_t children_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6); }

/* The text for the shortest beginning of key[0, n) in the trie, or the longest, which has *length bytes; NULL: there is
 * none. */
static const char *find_beginning(const Charsmap *m, const char *key, size_t n, bool longest, size_t *length)
{
    size_t at = children_of(unit_at(m, 0));
    const char *found = NULL;

    for (size_t i = 0; i < n && key[i]; i++) {
        uint32_t unit;

        at ^= (uint8_t)key[i];
        if (at >= m->units)
            return found;
        unit = unit_at(m, at);
        if ((unit & (1u << 31 | 0xff)) != (uint8_t)key[i])
            return found;
        at ^= children_of(unit);
        if (at >= m->units)
            return found;
        if (unit >> 8 & 1) {
            const size_t place = unit_at(m, at) & ~(1u << 31);

            if (place >= m->n)
                return found;
            found = m->texts + place;
            *length = i + 1;
            if (!longest)
                return found;
        }
    }
    return found;
}

static const char *find(const Charsmap *m, const char *key, size_t n)
{
    size_t length;

    return find_beginning(m, key, n, false, &length);
}

const char *charsmap_longest(const Charsmap *m, const char *text, size_t n, size_t *step)
{
    return find_beginning(m, text, n, true, step);
}

/* Checks the parts of a map of `size` bytes. */
static Status open_map(Charsmap *m, size_t size)
{
    const size_t trie = size < 4 ? 0 : number_at(m->data);
    bool valid = true;

    if (!trie || trie % 4 || trie > size - 4 || size == 4 + trie || m->data[size - 1])
        return FAIL(E_INVALID, "precompiled_charsmap of %zu bytes is broken", size);
    m->units = trie / 4;
    m->texts = (const char *)m->data + 4 + trie;
    m->n = size - 4 - trie;
    for (size_t i = 0; i < m->n && valid;)
        i += utf8_step((const uint8_t *)m->texts + i, m->n - i, &valid);
    if (!valid)
        return FAIL(E_INVALID, "precompiled_charsmap holds texts that are no UTF-8");
    for (int c = 0; c < 128; c++) {
        const char key = (char)c;

        m->stays[c] = !find(m, &key, 1);
    }
    return ST_OK;
}

Status charsmap_create(Charsmap **out, const char *base64)
{
    const size_t n = strlen(base64);
    Charsmap *m = calloc(1, sizeof *m);
    size_t size = 0;
    Status st;

    if (!m || !(m->data = malloc(n / 4 * 3 + 4)))
        st = FAIL_NOMEM();
    else if (sodium_base642bin(m->data, n / 4 * 3 + 3, base64, n, NULL, &size, NULL, sodium_base64_VARIANT_ORIGINAL))
        st = FAIL(E_INVALID, "precompiled_charsmap is no base64");
    else
        st = open_map(m, size);
    if (st)
        charsmap_free(m);
    else
        *out = m;
    return st;
}

Status charsmap_of_bytes(Charsmap **out, const uint8_t *map, size_t n)
{
    Charsmap *m = calloc(1, sizeof *m);
    Status st = m && (m->data = malloc(n + 1)) ? ST_OK : FAIL_NOMEM();

    if (!st) {
        memcpy(m->data, map, n);
        st = open_map(m, n);
    }
    if (st)
        charsmap_free(m);
    else
        *out = m;
    return st;
}

void charsmap_free(Charsmap *m)
{
    if (m)
        free(m->data);
    free(m);
}

/* The length of the grapheme cluster at the beginning of a text, which is not empty. */
static size_t cluster_length(const char *text, size_t n)
{
    utf8proc_int32_t c, before, state = 0;
    size_t end = (size_t)utf8proc_iterate((const uint8_t *)text, (utf8proc_ssize_t)n, &before);

    for (; end < n; before = c) {
        const utf8proc_ssize_t len = utf8proc_iterate((const uint8_t *)text + end, (utf8proc_ssize_t)(n - end), &c);

        if (utf8proc_grapheme_break_stateful(before, c, &state))
            break;
        end += (size_t)len;
    }
    return end;
}

/* Adds what the map has for a part of the text, `key`, behind what lies before it; *found: the map has it. */
static Status map_key(TextBuffer *b, const Charsmap *m, const char *text, size_t *done, const char *key, size_t n,
                      bool *found)
{
    const char *to = find(m, key, n);
    const size_t at = (size_t)(key - text);

    *found = to != NULL;
    if (!to)
        return ST_OK;
    TRY(text_add(b, text + *done, at - *done));
    *done = at + n;
    return text_add(b, to, strlen(to));
}

Status charsmap_apply(const char **out, TextBuffer *b, const Charsmap *m, const char *text, size_t *n)
{
    size_t done = 0; /* bytes of the text that are in the buffer */
    bool found;

    b->n = 0;
    for (size_t i = 0, len; i < *n; i += len) {
        const unsigned char c = (unsigned char)text[i];

        len = 1;
        if (c < 0x80 && c != '\r' && m->stays[c] && (i + 1 == *n || (unsigned char)text[i + 1] < 0x80))
            continue;
        len = cluster_length(text + i, *n - i);
        found = false;
        if (len < CLUSTER_LESS)
            TRY(map_key(b, m, text, &done, text + i, len, &found));
        for (size_t k = i, step; k < i + len && !found; k += step) {
            bool valid, one;

            step = utf8_step((const uint8_t *)text + k, i + len - k, &valid);
            TRY(map_key(b, m, text, &done, text + k, step, &one));
        }
    }
    if (!done) {
        *out = text;
        return ST_OK;
    }
    TRY(text_add(b, text + done, *n - done));
    *out = b->text;
    *n = b->n;
    return ST_OK;
}
