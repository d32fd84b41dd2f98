/* Normalisation of texts before they are divided into tokens: the steps of a tokenizer.json's `normalizer`. */
#ifndef DPX_TOOLS_NORMALIZER_H
#define DPX_TOOLS_NORMALIZER_H

#include <jansson.h>

#include "tools/text/charsmap.h"
#include "tools/text/split_pattern.h"
#include "tools/text/utf8_text.h"

enum { NORMALIZERS_MOST = 32 };

typedef enum {
    NORM_FORM,
    NORM_LOWERCASE,
    NORM_STRIP_ACCENTS,
    NORM_STRIP,
    NORM_REPLACE,
    NORM_PREPEND,
    NORM_MAP
} NormKind;

typedef struct {
    NormKind kind;
    TextForm form;
    bool left, right;      /* where white space is stripped */
    SplitPattern *pattern; /* what is replaced */
    char *content;         /* by what; or what is put in front */
    Charsmap *map;
} NormStep;

typedef struct {
    NormStep step[NORMALIZERS_MOST];
    int n;
    bool cuts;            /* a step may leave the beginning of a text out */
    TextBuffer buffer[2]; /* the text that is normalised lies in them */
} Normalizer;

/* Reads a JSON object.  What dpexec lacks, or refuses, is added to `wrong`. */
Status normalizer_read(Normalizer *z, const json_t *j, Problems *wrong) CHECKED;
void normalizer_free(Normalizer *z);
/* Normalises a valid text.  Returns the text itself when nothing changes, else the normalizer holds it.  For
 * one thread at a time. */
Status normalizer_apply(const char **out, Normalizer *z, const char *text, size_t *n) CHECKED;

#endif
