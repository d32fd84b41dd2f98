/* Separators, line ends and escapes of JSON. */
#include "graph/base/json_writer.h"

#include <assert.h>
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
    const int at = w->depth - 1;

    if (at >= 0 && w->level[at].has_member)
        putc(',', w->to);
    if (at >= 0 && w->depth <= w->lines && (w->level[at].is_object || !is_plain)) {
        new_line(w);
        w->level[at].has_line = true;
    } else if (at >= 0 && w->level[at].has_member && !w->compact) {
        putc(' ', w->to);
    }
    if (at >= 0)
        w->level[at].has_member = true;
    if (key) {
        write_text(w, key);
        fputs(w->compact ? ":" : ": ", w->to);
    }
}

void json_open(JsonWriter *w, const char *key, char bracket)
{
    assert(w->depth < JSON_DEPTH);
    begin_value(w, key, false);
    putc(bracket, w->to);
    w->level[w->depth].is_object = bracket == '{';
    w->level[w->depth].has_member = false;
    w->level[w->depth++].has_line = false;
}

void json_close(JsonWriter *w)
{
    w->depth--;
    if (w->level[w->depth].has_line)
        new_line(w);
    putc(w->level[w->depth].is_object ? '}' : ']', w->to);
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
