/* Rows of CSV files, as RFC 4180 writes them and people's programs do.
 *
 * A cell in double quotes may hold delimiters, line ends and doubled quotes.  Lines end with LF, CRLF or CR.  A byte
 * order mark and empty lines are skipped, and so are blanks around cells and around their quotes.  A quote within a
 * cell that does not begin with one is a character like others. */
#ifndef DPX_TOOLS_CSV_READER_H
#define DPX_TOOLS_CSV_READER_H

#include <stdbool.h>
#include <stdio.h>

#include "graph/base/mapped.h"

enum { CSV_MOST_COLUMNS = 1 << 14, CSV_MOST_BYTES = 1 << 20 /* of a row */ };

typedef struct {
    const char *path; /* lent */
    Mapped file;
    size_t at, begin; /* where the next row begins; the first */
    size_t kept;      /* pages from here on may be in memory */
    int64_t line;     /* of the file, from 1, at `at` */
    char delimiter;
    /* The last row: valid until the next. */
    int64_t row_line; /* the line where it begins */
    int n;
    char **cell; /* [n] texts */
    char *text;  /* that hold them */
} Csv;

/* Opens a file that separates cells by `delimiter`; 0: the one of , ; tab | that divides the first rows into equally
 * many cells.  E_INVALID when two do.  The path is lent. */
Status csv_open(Csv *out, const char *path, char delimiter) CHECKED;
void csv_close(Csv *c); /* { 0 } is legal */
/* Reads the next row; *more: there is one.  E_IO names file, line and column, from 1, of text that is no CSV in UTF-8.
 */
Status csv_next(bool *more, Csv *c) CHECKED;
/* The bytes of the last row's cells, one behind the other from the first on, with their zeros. */
size_t csv_row_bytes(const Csv *c);
/* Goes back to the first row. */
void csv_rewind(Csv *c);

/* Writes a text as one cell, in quotes where it needs them. */
void csv_write(FILE *to, const char *text, char delimiter);

#endif
