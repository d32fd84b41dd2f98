/* Strings of tensors: making, comparing and splitting them. */
#include "graph/tensor/strings.h"

#include "graph/base/foreign.h"

int text_compare(Text a, Text b)
{
    const size_t n = a.n < b.n ? a.n : b.n;
    const int c = n ? memcmp(a.bytes, b.bytes, n) : 0;

    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* A byte of 0 follows the text, which is in no UTF-8 sequence, so that reading does not go beyond it. */
bool text_is_utf8(Text t)
{
    for (size_t i = 0; i < t.n;) {
        const int n = t.bytes[i] ? utf8_length(t.bytes + i) : 1;

        if (!n)
            return false;
        i += (size_t)n;
    }
    return true;
}

char *text_make(Tensor *t, int64_t i, Arena *a, size_t n)
{
    static const char nothing[1];
    Text *x = n && n < SIZE_MAX - sizeof *x ? arena_alloc(a, sizeof *x + n + 1) : NULL;
    char *bytes = x ? (char *)(x + 1) : n ? NULL : (char *)(uintptr_t)nothing;

    if (x)
        *x = (Text){ n, bytes };
    ((const Text **)t->data)[i] = x;
    return bytes;
}

bool text_set(Tensor *t, int64_t i, Arena *a, Text from)
{
    char *to = text_make(t, i, a, from.n);

    if (to && from.n)
        memcpy(to, from.bytes, from.n);
    return to != NULL;
}

bool text_copy_all(Tensor *to, Arena *a, const Tensor *from)
{
    for (int64_t i = 0; i < tensor_numel(from); i++)
        if (!text_set(to, i, a, text_at(from, i)))
            return false;
    return true;
}

/* ---- parts ---- */

/* The length of the whitespace character at `s`, in a text of `n` bytes; 0: it is none.  Whitespace is that of Python's
 * str.split(). */
static size_t space_at(const char *s, size_t n)
{
    const unsigned char c = n ? (unsigned char)*s : 'x';
    uint32_t code;
    size_t len;

    if (c < 128)
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
    if (!(len = (size_t)utf8_length(s)))
        return 0;
    code = utf8_code(s);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
                   code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000
               ? len
               : 0;
}

static Text without_first(Text t, size_t n) { return (Text){ t.n - n, t.bytes + n }; }

static Text without_spaces_in_front(Text t)
{
    for (size_t n; (n = space_at(t.bytes, t.n));)
        t = without_first(t, n);
    return t;
}

static Text without_spaces_behind(Text t)
{
    size_t end = 0;

    for (size_t i = 0; i < t.n;) {
        const size_t space = space_at(t.bytes + i, t.n - i);

        i += space ? space : 1;
        end = space ? end : i;
    }
    return (Text){ end, t.bytes };
}

/* Finds the next separator, its offset and its number of bytes; false: there is none. */
static bool find_separator(size_t *at, size_t *n, Text in, Text by)
{
    const char *found = by.n ? memmem(in.bytes, in.n, by.bytes, by.n) : NULL;

    *at = found ? (size_t)(found - in.bytes) : 0;
    *n = by.n;
    for (; !by.n && *at < in.n; ++*at)
        if ((*n = space_at(in.bytes + *at, in.n - *at)))
            return true;
    return found;
}

TextSplit text_split(Text whole, Text by, int64_t most)
{
    const Text inner = by.n ? whole : without_spaces_behind(without_spaces_in_front(whole));

    return (TextSplit){ inner, by, most, by.n || inner.n };
}

bool text_split_next(Text *part, TextSplit *s)
{
    size_t at, n;

    if (!s->more)
        return false;
    if (!s->left || !find_separator(&at, &n, s->rest, s->by)) {
        *part = s->rest;
        s->more = false;
        return true;
    }
    *part = (Text){ at, s->rest.bytes };
    s->rest = without_first(s->rest, at + n);
    if (!s->by.n)
        s->rest = without_spaces_in_front(s->rest);
    s->left -= s->left > 0;
    return true;
}
