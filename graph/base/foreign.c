/* UTF-8, and foreign text made safe for a terminal.  Characters are checked, not bytes, because the second block of
 * controls and the direction marks are ordinary bytes of UTF-8.  https://www.unicode.org/reports/tr9/ lists the marks.
 */
#include "graph/base/foreign.h"

#include <string.h>

size_t utf8_step(const uint8_t *s, size_t n, bool *valid)
{
    uint8_t low = 0x80, high = 0xBF;
    size_t len;

    *valid = true;
    if (s[0] < 0x80)
        return 1;
    *valid = false;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 1;
    len = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (s[0] == 0xE0)
        low = 0xA0; /* shorter forms exist */
    else if (s[0] == 0xED)
        high = 0x9F; /* surrogates */
    else if (s[0] == 0xF0)
        low = 0x90;
    else if (s[0] == 0xF4)
        high = 0x8F; /* beyond U+10FFFF */
    for (size_t i = 1; i < len; i++, low = 0x80, high = 0xBF)
        if (i == n || s[i] < low || s[i] > high)
            return i;
    *valid = true;
    return len;
}

int utf8_length(const char *s)
{
    bool valid;
    const size_t n = utf8_step((const uint8_t *)s, strnlen(s, 4) + !*s, &valid);

    return valid ? (int)n : 0;
}

bool utf8_valid(const char *s)
{
    for (int n; *s; s += n)
        if (!(n = utf8_length(s)))
            return false;
    return true;
}

uint32_t utf8_code(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    int n = *s < 0x80 ? 1 : *s < 0xE0 ? 2 : *s < 0xF0 ? 3 : 4; /* nothing behind the sequence is read */
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

    for (int i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

size_t utf8_encode(char *to, uint32_t c)
{
    const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : c < 0x110000 ? 4 : 0;

    if (!n || (c >= 0xd800 && c < 0xe000))
        return 0;
    for (size_t i = n; to && i-- > 1; c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    if (to)
        *to = (char)(n == 1 ? c : c | (0xf00u >> n & 0xffu));
    return n;
}

int foreign_length(const char *s)
{
    int n = utf8_length(s);
    uint32_t c = n ? utf8_code(s) : 0;

    if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        return 0;
    if (c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
        return 0;
    return n;
}

void foreign_clean(char *s)
{
    while (*s) {
        int n = foreign_length(s);

        if (!n)
            *s = ' ';
        s += n ? n : 1;
    }
}

void foreign_print(FILE *f, const char *s)
{
    while (*s) {
        int n = foreign_length(s);

        if (n)
            fwrite(s, 1, (size_t)n, f);
        else
            putc('?', f);
        s += n ? n : 1;
    }
}

static int lower(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c; }

int ascii_casecmp(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (lower(a[i]) != lower(b[i]) || !a[i])
            return lower(a[i]) - lower(b[i]);
    return 0;
}

const char *ascii_casestr(const char *s, const char *word)
{
    const size_t n = strlen(word);

    while (*s && ascii_casecmp(s, word, n))
        s++;
    return *s || !n ? s : NULL;
}
