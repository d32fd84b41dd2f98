/* Rows of CSV files.  A row's cells are copied into one block, each with a zero behind it: a row of n bytes has at most
 * n cells more than delimiters, so n + 1 bytes hold them.  Pages of the file that were read are forgotten, so a large
 * file takes no more memory than a small one. */
#include "tools/table/csv_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"

enum { SAMPLE_ROWS = 64 /* by which a delimiter is found */, KEPT_BYTES = 16 << 20 /* of the file in memory */ };
static const char delimiters[] = ",;\t|";

/* "comma", "semicolon", "tab", "pipe" */
static const char *delimiter_name(char delimiter)
{
    return delimiter == ',' ? "comma" : delimiter == ';' ? "semicolon" : delimiter == '\t' ? "tab" : "pipe";
}

static Status csv_fault(const Csv *c, const char *what)
{
    return FAIL(E_IO, "%s, line %" PRId64 ", column %d: %s", c->path, c->row_line, c->n + 1, what);
}

/* The bytes of the line end at `at`; 0: there is none. */
static size_t line_end(const Csv *c, size_t at)
{
    if (at == c->file.size || (c->file.data[at] != '\n' && c->file.data[at] != '\r'))
        return 0;
    return c->file.data[at] == '\r' && at + 1 < c->file.size && c->file.data[at + 1] == '\n' ? 2 : 1;
}

static void skip_blanks(Csv *c, size_t end)
{
    while (c->at < end && (c->file.data[c->at] == ' ' || (c->file.data[c->at] == '\t' && c->delimiter != '\t')))
        c->at++;
}

/* Copies a cell in quotes to `to`, which is returned at its end; NULL: a failure.  The row ends before `end`. */
static char *read_quoted(Csv *c, size_t end, char *to)
{
    for (c->at++; c->at < end; c->at++) {
        const char ch = (char)c->file.data[c->at];

        if (ch == '"') {
            if (c->at + 1 == c->file.size || c->file.data[c->at + 1] != '"') {
                c->at++;
                skip_blanks(c, end);
                return to;
            }
            c->at++;
        }
        if (line_end(c, c->at) == 1)
            c->line++;
        *to++ = ch;
    }
    return NULL;
}

static char *read_plain(Csv *c, size_t end, char *to)
{
    const char *from = to, *data = (const char *)c->file.data, delimiter = c->delimiter;
    size_t at = c->at;

    for (; at < end && data[at] != delimiter && data[at] != '\n' && data[at] != '\r'; at++)
        *to++ = data[at];
    c->at = at;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    return to;
}

/* Checks a cell's text, which has a zero behind its end. */
static Status check_text(const Csv *c, const char *text, const char *end)
{
    bool zero = false, foreign = false;

    for (const char *s = text; s < end; s++) {
        zero |= !*s;
        foreign |= (unsigned char)*s >= 0x80;
    }
    if (zero)
        return csv_fault(c, "a byte of 0, which no text has: if this is UTF-16, convert it: iconv -f UTF-16 -t UTF-8");
    return !foreign || utf8_valid(text)
               ? ST_OK
               : csv_fault(c, "not UTF-8: convert the file, such as by iconv -f LATIN1 -t UTF-8");
}

Status csv_next(bool *more, Csv *c)
{
    size_t begin, end;
    char *to = c->text;

    for (size_t n; (n = line_end(c, c->at)); c->at += n)
        c->line++;
    begin = c->at;
    if (begin - c->kept > KEPT_BYTES) {
        mapped_forget(&c->file);
        c->kept = begin;
    }
    end = c->file.size - begin > CSV_MOST_BYTES ? begin + CSV_MOST_BYTES : c->file.size;
    c->row_line = c->line;
    c->n = 0;
    if (!(*more = begin < c->file.size))
        return ST_OK;
    for (bool last = false; !last; c->n++) {
        bool quoted;
        size_t ends;

        if (c->n == CSV_MOST_COLUMNS)
            return FAIL(E_UNSUPPORTED, "%s, line %" PRId64 ": more than %d columns", c->path, c->row_line, c->n);
        skip_blanks(c, end);
        quoted = c->at < end && c->file.data[c->at] == '"';
        c->cell[c->n] = to;
        if (!(to = quoted ? read_quoted(c, end, to) : read_plain(c, end, to)) && end == c->file.size)
            return csv_fault(c, "a quote that is not closed");
        if (!to || (c->at == end && end < c->file.size))
            return FAIL(E_UNSUPPORTED,
                        "%s, line %" PRId64 ", column %d: the row has more than %d bytes: is a quote not closed?",
                        c->path, c->row_line, c->n + 1, CSV_MOST_BYTES);
        *to = '\0';
        TRY(check_text(c, c->cell[c->n], to));
        to++;
        ends = line_end(c, c->at);
        last = c->at == c->file.size || ends;
        if (!last && (char)c->file.data[c->at] != c->delimiter)
            return csv_fault(c, "text behind a closing quote: a quote within quotes is written twice");
        c->at += last ? ends : 1;
        c->line += ends > 0;
    }
    return ST_OK;
}

size_t csv_row_bytes(const Csv *c) { return (size_t)(c->cell[c->n - 1] - c->cell[0]) + strlen(c->cell[c->n - 1]) + 1; }

void csv_rewind(Csv *c)
{
    c->at = c->begin;
    c->kept = 0;
    c->line = 1;
}

/* The number of cells that the delimiter divides each of the first rows into; 0: they differ.  *most: of the first row.
 */
static int count_cells(int *most, Csv *c, char delimiter)
{
    bool more;
    int n = 0;

    c->delimiter = delimiter;
    csv_rewind(c);
    for (int row = 0; row < SAMPLE_ROWS; row++) {
        const Status st = csv_next(&more, c);

        if (!st && !more)
            break;
        if (!row)
            *most = c->n;
        if (st || (row && c->n != n))
            return 0;
        n = c->n;
    }
    return n;
}

static Status find_delimiter(Csv *c)
{
    char found = '\0', widest = ',';
    int most = 0;

    for (const char *d = delimiters; *d; d++) {
        int first = 0;
        const int n = count_cells(&first, c, *d);

        if (n > 1 && found)
            return FAIL(E_INVALID, "%s: both %s and %s divide its rows evenly: delimiter=%s or delimiter=%s says which",
                        c->path, delimiter_name(found), delimiter_name(*d), delimiter_name(found), delimiter_name(*d));
        if (n > 1)
            found = *d;
        if (first > most) {
            most = first;
            widest = *d;
        }
    }
    c->delimiter = found ? found : widest; /* an uneven row is named when it is read */
    csv_rewind(c);
    return ST_OK;
}

static Status csv_begin(Csv *c, char delimiter)
{
    const uint8_t *d = c->file.data;
    const size_t n = c->file.size;

    if (n > 1 && ((d[0] == 0xff && d[1] == 0xfe) || (d[0] == 0xfe && d[1] == 0xff)))
        return FAIL(E_IO, "%s: the text is UTF-16: convert it: iconv -f UTF-16 -t UTF-8", c->path);
    c->begin = n > 2 && !memcmp(d, "\xef\xbb\xbf", 3) ? 3 : 0;
    c->cell = calloc(CSV_MOST_COLUMNS, sizeof *c->cell);
    c->text = malloc((n < CSV_MOST_BYTES ? n : CSV_MOST_BYTES) + 2);
    if (!c->cell || !c->text)
        return FAIL_NOMEM();
    c->delimiter = delimiter;
    csv_rewind(c);
    return delimiter ? ST_OK : find_delimiter(c);
}

Status csv_open(Csv *out, const char *path, char delimiter)
{
    Csv c = { .path = path };
    Status st;

    TRY(mapped_open(&c.file, path));
    if ((st = csv_begin(&c, delimiter))) {
        csv_close(&c);
        return st;
    }
    *out = c;
    return ST_OK;
}

void csv_close(Csv *c)
{
    mapped_close(&c->file);
    free(c->cell);
    free(c->text);
    *c = (Csv){ 0 };
}

void csv_write(FILE *to, const char *text, char delimiter)
{
    const size_t n = strlen(text);
    bool quotes = n && (*text == ' ' || *text == '\t' || text[n - 1] == ' ' || text[n - 1] == '\t' ||
                        !strncmp(text, "\xef\xbb\xbf", 3)); /* a byte order mark that is text */

    for (const char *s = text; *s; s++)
        quotes |= *s == delimiter || *s == '"' || *s == '\n' || *s == '\r';
    if (quotes)
        putc('"', to);
    for (const char *s = text; *s; s++) {
        if (*s == '"')
            putc('"', to);
        putc(*s, to);
    }
    if (quotes)
        putc('"', to);
}
