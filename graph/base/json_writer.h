/* A JSON document written to a stream as it comes, where one in memory (jansson) would cost more than it gives: graphs,
 * traces, reports, a line of metrics.
 *
 *     JsonWriter w = { .to = f, .lines = 1 };
 *     json_open(&w, NULL, '{');
 *     json_write_string(&w, "name", "mlp");
 *     json_open(&w, "shape", '[');
 *     json_write_int(&w, NULL, 8);
 *     json_close(&w);
 *     json_close(&w);
 *
 * writes
 *
 *     {
 *       "name": "mlp",
 *       "shape": [8]
 *     }
 *
 * Each call that writes a value takes the key of the member, or NULL for an element of a list or the document itself.
 * Errors stay in the stream: ferror(). */
#ifndef DPX_BASE_JSON_WRITER_H
#define DPX_BASE_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Bodies nest up to 64 deep (graph/text/parse.c), and each is four levels. */
enum { JSON_DEPTH = 300 };

typedef struct {
    FILE *to;
    int lines;    /* members and lists' elements nested less deep stand on lines of their own, but for plain elements */
    bool compact; /* no spaces: lines that programs read, one document each */
    bool html;    /* the text may stand within a script element */
    int depth;    /* of the open objects and lists; zero, as the levels, before the first call */
    struct {
        bool is_object, has_member, has_line;
    } level[JSON_DEPTH]; /* of what is open, the outermost first */
} JsonWriter;

/* Opens an object ('{') or a list ('['); at most JSON_DEPTH are open at once. */
void json_open(JsonWriter *w, const char *key, char bracket);
/* Closes what was opened last, and ends the line behind the document's end. */
void json_close(JsonWriter *w);

/* Control characters are escaped; a byte that is no UTF-8 becomes U+FFFD.  NULL: null. */
void json_write_string(JsonWriter *w, const char *key, const char *s);
void json_write_int(JsonWriter *w, const char *key, int64_t v);
void json_write_bool(JsonWriter *w, const char *key, bool v);
/* The shortest number that reads back to the same bits.  JSON has no infinity and no NaN: they are null. */
void json_write_float(JsonWriter *w, const char *key, double v);

#endif
