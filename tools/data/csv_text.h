/* A column of texts as sequences of token ids. */
#ifndef DPX_TOOLS_CSV_TEXT_H
#define DPX_TOOLS_CSV_TEXT_H

#include "tools/data/data.h"
#include "tools/table/table.h"
#include "tools/text/tokenizer.h"

typedef struct TextPart TextPart;

/* A text that waits for its ids. */
typedef struct {
    size_t at, n; /* its bytes in the texts */
    int64_t line;
} WaitingText;

/* The ids of all rows, one behind the other in a temporary file.  Texts are collected, and encoded by several threads.
 */
typedef struct {
    const char *column; /* lent; NULL: there is none, and all else is empty */
    char *tokenizer;    /* "bytes", or a file's path */
    Tokenizer *t;
    uint64_t digest; /* of the tokenizer's file */
    TextPart *part;  /* [threads] */
    int threads;
    TextBuffer texts;     /* that wait */
    WaitingText *waiting; /* [n_waiting] */
    size_t n_waiting, waiting_room;
    FILE *file; /* of the ids */
    int64_t ids;
    uint32_t most; /* the largest id */
    Rows *row;     /* [n] where each row's are */
    size_t n, room;
    int64_t block, padding;    /* ids of a sample, 0: as many as there are; the id behind shorter ones */
    const char *input, *array; /* the model's input that gets them, and the array's name; lent */
} TextColumn;

enum { TEXT_THREADS = 64 };

/* Opens the tokenizer: the source's, or that of training, which must be the same.  E_INVALID for options that need a
 * column of texts.  `threads` encode the texts. */
Status csv_text_open(TextColumn *out, const Source *s, const json_t *fitted, int threads) CHECKED;
void csv_text_close(TextColumn *x); /* { 0 } is legal */
/* A TableText: adds a row's text. */
Status csv_text_take(void *user, const char *text, int64_t line) CHECKED;
/* Adds the array, whose texts are cut to the block, or to the length that the model's input fixes, and notes how many
 * are cut. */
Status csv_text_add(Dataset *d, TextColumn *x, const Table *t, const dpx_info *in) CHECKED;
/* What is kept for evaluation and predictions.  NULL: no memory. */
json_t *csv_text_fitted(const TextColumn *x);

#endif
