/* Separators, line ends and escapes of JSON. */
#include "graph/base/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"

static void new_line(JsonWriter *w) { fprintf(w->to, "\n%*s", w->compact ? 0 : 2 * w->depth, ""); }

static void write_text(const JsonWriter *w, const char *s)
{
    putc('"', w->to);
    for (int n; *s; s += n ? n : 1) {
        n = utf8_length(s);
        if (!n)
            fputs("\\ufffd", w->to);
        else if (!foreign_length(s) || (w->html && strchr("<>&", *s)))
            fprintf(w->to, "\\u%04x", (unsigned)utf8_code(s));
        else if (*s == '"' || *s == '\\')
            fprintf(w->to, "\\%c", *s);
        else
            fwrite(s, 1, (size_t)n, w->to);
    }
    putc('"', w->to);
}

/* Writes what stands before a value: the comma, the line's beginning, the key. */
static void begin_value(JsonWriter *w, const char *key, bool is_plain)
{
    const uint32_t bit = w->depth ? 1u << (w->depth - 1) : 0;

    if (w->has_member & bit)
        putc(',', w->to);
    if (bit && w->depth <= w->lines && (w->is_object & bit || !is_plain)) {
        new_line(w);
        w->has_line |= bit;
    } else if (w->has_member & bit && !w->compact) {
        putc(' ', w->to);
    }
    w->has_member |= bit;
    if (key) {
        write_text(w, key);
        fputs(w->compact ? ":" : ": ", w->to);
    }
}

void json_open(JsonWriter *w, const char *key, char bracket)
{
    const uint32_t bit = 1u << w->depth;

    begin_value(w, key, false);
    putc(bracket, w->to);
    w->depth++;
    w->has_member &= ~bit;
    w->has_line &= ~bit;
    w->is_object = bracket == '{' ? w->is_object | bit : w->is_object & ~bit;
}

void json_close(JsonWriter *w)
{
    const uint32_t bit = 1u << --w->depth;

    if (w->has_line & bit)
        new_line(w);
    putc(w->is_object & bit ? '}' : ']', w->to);
    if (!w->depth)
        putc('\n', w->to);
}

void json_write_string(JsonWriter *w, const char *key, const char *s)
{
    begin_value(w, key, true);
    s ? write_text(w, s) : (void)fputs("null", w->to);
}

void json_write_int(JsonWriter *w, const char *key, int64_t v)
{
    begin_value(w, key, true);
    fprintf(w->to, "%" PRId64, v);
}

void json_write_bool(JsonWriter *w, const char *key, bool v)
{
    begin_value(w, key, true);
    fputs(v ? "true" : "false", w->to);
}

void json_write_float(JsonWriter *w, const char *key, double v)
{
    char text[NUMBER_TEXT];

    begin_value(w, key, true);
    fputs(isfinite(v) ? text_float64(text, v) : "null", w->to);
}
