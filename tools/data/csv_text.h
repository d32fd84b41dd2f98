/* A column of texts as sequences of token ids. */
#ifndef DPX_TOOLS_CSV_TEXT_H
#define DPX_TOOLS_CSV_TEXT_H

#include "tools/data/data.h"
#include "tools/table/table.h"
#include "tools/text/tokenizer.h"

/* The ids of all rows, one behind the other. */
typedef struct {
    const char *column; /* lent; NULL: there is none, and all else is empty */
    char *tokenizer;    /* "bytes", or a file's path */
    Tokenizer *t;
    uint64_t digest; /* of the tokenizer's file */
    TokenIds ids;
    Rows *row; /* [n] where each row's are */
    size_t n, room;
    int64_t block, padding;    /* ids of a sample, 0: as many as there are; the id behind shorter ones */
    const char *input, *array; /* the model's input that gets them, and the array's name; lent */
} TextColumn;

/* Opens the tokenizer: the source's, or that of training, which must be the same.  E_INVALID for options that need a
 * column of texts. */
Status csv_text_open(TextColumn *out, const Source *s, const json_t *fitted) CHECKED;
void csv_text_close(TextColumn *x); /* { 0 } is legal */
/* A TableText: adds a row's text. */
Status csv_text_take(void *user, const char *text, int64_t line) CHECKED;
/* Adds the array, whose texts are cut to the block, or to the length that the model's input fixes, and notes how many
 * are cut. */
Status csv_text_add(Dataset *d, TextColumn *x, const Table *t, const dpx_info *in) CHECKED;
/* What is kept for evaluation and predictions.  NULL: no memory. */
json_t *csv_text_fitted(const TextColumn *x);

#endif
