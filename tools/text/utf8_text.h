/* Texts as tokenizers read them: valid UTF-8, and normalisation forms. */
#ifndef DPX_TOOLS_UTF8_TEXT_H
#define DPX_TOOLS_UTF8_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/base/status.h"

/* A text that grows by heap_reserve. */
typedef struct {
    char *text;
    size_t n, room;
} TextBuffer;

Status text_add(TextBuffer *b, const char *text, size_t n) CHECKED;
/* The bytes of white space at the beginning of a valid text. */
size_t white_space_begins(const char *text, size_t n);
/* The place where the white space that ends text[0, n) begins. */
size_t white_space_ends(const char *text, size_t n);
/* Puts U+FFFD for all that is no UTF-8.  Returns the text itself when it is valid, else `b` holds it.  *n: its bytes;
 * *replaced: how often; *first: byte of the first. */
Status utf8_repair(const char **out, TextBuffer *b, const uint8_t *text, size_t *n, size_t *replaced,
                   size_t *first) CHECKED;
typedef enum { TEXT_NFC, TEXT_NFD, TEXT_NFKC, TEXT_NFKD } TextForm;

/* A normalisation form of a valid text.  Returns the text itself when it is in this form, else `b` holds it.
 * E_UNSUPPORTED for more than 4096 combining marks behind one character. */
Status text_normalise(const char **out, TextBuffer *b, const char *text, size_t *n, TextForm form) CHECKED;

#endif
