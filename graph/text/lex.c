/* The lexer of the text form: one pass over the bytes, without look-ahead beyond the token.  Bytes above 127 are
 * allowed only inside quotes. */
#include "graph/text/lex.h"

#include <stdbool.h>
#include <string.h>

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '/' || c == '-'; }

static Status lex_make(Lexer *l, Token *out, TokenKind kind, const char *from, size_t len)
{
    char *text = arena_alloc(l->arena, len + 1);

    if (!text)
        return FAIL_NOMEM();
    memcpy(text, from, len);
    *out = (Token){ kind, text, len, l->line };
    return ST_OK;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* Reads the rest of an escape, after its backslash: the byte, or -1. */
static int escape(Lexer *l)
{
    int high, low;

    if (l->at < l->end && (*l->at == '"' || *l->at == '\\'))
        return *l->at++;
    if (l->end - l->at < 3 || *l->at != 'x')
        return -1;
    high = hex_digit(l->at[1]);
    low = hex_digit(l->at[2]);
    if (high < 0 || low < 0 || !(high | low))
        return -1;
    l->at += 3;
    return high * 16 + low;
}

/* Reads a string whose opening quote has been skipped. */
static Status lex_string(Lexer *l, Token *out, TokenKind kind)
{
    const char *from = l->at;
    char *text;
    size_t n = 0, max;

    while (l->at < l->end && *l->at != '"' && *l->at != '\n')
        l->at += *l->at == '\\' && l->end - l->at > 1 ? 2 : 1;
    max = (size_t)(l->at - from) + 1;
    l->at = from;
    if (!(text = arena_alloc(l->arena, max)))
        return FAIL_NOMEM();
    while (l->at < l->end && *l->at != '"') {
        int c = (unsigned char)*l->at++;

        if (c < ' ' || c == 127)
            return FAIL(E_MODEL, "line %d: a string has a control character or no end", l->line);
        if (c == '\\' && (c = escape(l)) < 0)
            return FAIL(E_MODEL, "line %d: expected \\\", \\\\ or \\xNN in a string", l->line);
        text[n++] = (char)c;
    }
    if (l->at >= l->end)
        return FAIL(E_MODEL, "line %d: a string has no end", l->line);
    l->at++;
    *out = (Token){ kind, text, n, l->line };
    return ST_OK;
}

static void skip_space(Lexer *l)
{
    for (; l->at < l->end; l->at++) {
        if (*l->at == '#')
            while (l->at < l->end && *l->at != '\n')
                l->at++;
        if (l->at >= l->end)
            return;
        if (*l->at == '\n')
            l->line++;
        else if (*l->at != ' ' && *l->at != '\t' && *l->at != '\r')
            return;
    }
}

/* The length of the run of characters that may stand in a number; the parser checks it. */
static size_t number_length(const Lexer *l)
{
    const char *p = l->at + 1;

    while (p < l->end &&
           (is_letter(*p) || is_digit(*p) || *p == '.' || ((*p == '-' || *p == '+') && (p[-1] == 'e' || p[-1] == 'E'))))
        p++;
    return (size_t)(p - l->at);
}

static size_t name_length(const char *from, const char *end, char also)
{
    const char *p = from;

    while (p < end && (is_name(*p) || *p == also))
        p++;
    return (size_t)(p - from);
}

Status lex_next(Lexer *l, Token *out)
{
    const char *from;
    size_t n;

    skip_space(l);
    if (l->at >= l->end) {
        *out = (Token){ T_END, "", 0, l->line };
        return ST_OK;
    }
    from = l->at;
    if (*from == '"') {
        l->at++;
        return lex_string(l, out, T_STRING);
    }
    if (*from == '%') {
        l->at++;
        if (l->at < l->end && *l->at == '"') {
            l->at++;
            return lex_string(l, out, T_VALUE);
        }
        if (!(n = name_length(l->at, l->end, '@')))
            return FAIL(E_MODEL, "line %d: expected a name after %%", l->line);
        l->at += n;
        return lex_make(l, out, T_VALUE, from + 1, n);
    }
    if (is_letter(*from)) {
        n = name_length(from, l->end, '.');
        l->at += n;
        return lex_make(l, out, T_WORD, from, n);
    }
    if (is_digit(*from) || *from == '-' || *from == '+') {
        n = number_length(l);
        l->at += n;
        return lex_make(l, out, T_NUMBER, from, n);
    }
    n = l->end - from >= 3 && !memcmp(from, "...", 3) ? 3 : l->end - from >= 2 && !memcmp(from, ":=", 2) ? 2 : 1;
    if (n == 1 && (!*from || !strchr("(){}[],:=@?*", *from)))
        return FAIL(E_MODEL, "line %d: unexpected character 0x%02x", l->line, (unsigned)(unsigned char)*from);
    l->at += n;
    return lex_make(l, out, T_PUNCT, from, n);
}
