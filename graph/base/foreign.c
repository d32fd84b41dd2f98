/* UTF-8, and foreign text made safe for a terminal.  Characters are checked, not bytes, because the second block of
 * controls and the direction marks are ordinary bytes of UTF-8.  https://www.unicode.org/reports/tr9/ lists the marks.
 */
#include "graph/base/foreign.h"

#include <string.h>

int utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    int n = s[0] < 0x80                   ? 1
            : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
            : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
            : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                          : 0;

    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
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
    int n = utf8_length(text);
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
