/* Byte pair encoding as SentencePiece does it: neighbouring pieces are joined to the piece of the best score. */
#ifndef DPX_TOOLS_PIECE_BPE_H
#define DPX_TOOLS_PIECE_BPE_H

#include <stdbool.h>

#include "tools/text/unigram.h"

typedef struct PieceBpe PieceBpe;

/* `pieces`, which is lent, finds the ids of pieces; there are n of them. */
Status piece_bpe_create(PieceBpe **out, const Unigram *pieces, size_t n) CHECKED;
void piece_bpe_free(PieceBpe *b); /* NULL is legal */
/* `unused`: the piece may be joined from others, and is divided into them again at the end. */
void piece_bpe_set(PieceBpe *b, uint32_t id, float score, bool unused);
/* Adds the ids of a valid text.  Pieces of `defined` (NULL: none) are kept as they are.  A character that is no piece
 * becomes the ids of its bytes, or where `byte` is NULL the unknown one, once for several side by side.  For one thread
 * at a time. */
Status piece_bpe_encode(PieceBpe *b, const Unigram *defined, uint32_t unknown, const uint32_t *byte, const char *text,
                        size_t n, TokenIds *out) CHECKED;

#endif
