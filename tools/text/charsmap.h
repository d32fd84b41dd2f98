/* Maps of characters in the normalisation of SentencePiece (precompiled_charsmap), as tokenizers applies them. */
#ifndef DPX_TOOLS_CHARSMAP_H
#define DPX_TOOLS_CHARSMAP_H

#include "tools/text/utf8_text.h"

typedef struct Charsmap Charsmap;

/* Reads a map in base64.  E_INVALID: it is broken. */
Status charsmap_create(Charsmap **out, const char *base64) CHECKED;
/* Reads a map as it is. */
Status charsmap_of_bytes(Charsmap **out, const uint8_t *map, size_t n) CHECKED;
void charsmap_free(Charsmap *m); /* NULL is legal */
/* Maps a valid text.  Returns the text itself when nothing changes, else `b` holds it. */
/* The text for the longest beginning of text[0, n) that the map has, whose bytes *step becomes; NULL: it has none. */
const char *charsmap_longest(const Charsmap *m, const char *text, size_t n, size_t *step);
Status charsmap_apply(const char **out, TextBuffer *b, const Charsmap *m, const char *text, size_t *n) CHECKED;

#endif
