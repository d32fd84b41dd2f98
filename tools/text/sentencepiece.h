/* Models of SentencePiece, Unigram and BPE, with the ids of its own encode(text). */
#ifndef DPX_TOOLS_SENTENCEPIECE_H
#define DPX_TOOLS_SENTENCEPIECE_H

#include <stdbool.h>

#include "tools/text/bpe.h"

typedef struct SentencePiece SentencePiece;

typedef enum { PIECE_TEXT, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_BYTE } PieceKind;

/* Does a file begin as such a model does? */
bool sentencepiece_is(const char *file, size_t n);
/* Reads a model; `label` names it in errors.  E_UNSUPPORTED: it is of words or characters. */
Status sentencepiece_open(SentencePiece **out, const char *file, size_t n, const char *label) CHECKED;
void sentencepiece_free(SentencePiece *s); /* NULL is legal */
uint32_t sentencepiece_count(const SentencePiece *s);
uint32_t sentencepiece_padding(const SentencePiece *s); /* TOKEN_NONE: the model has none */
/* The text of a piece, with U+2581 for spaces; of a byte, its only byte is *byte.  Its length is *n. */
PieceKind sentencepiece_piece(const char **text, size_t *n, uint8_t *byte, const SentencePiece *s, uint32_t id);
/* Adds the ids of a valid text.  For one thread at a time. */
Status sentencepiece_encode(SentencePiece *s, const char *text, size_t n, TokenIds *out) CHECKED;

#endif
