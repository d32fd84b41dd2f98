/* Unigram language model of subwords: the most probable division of a text into pieces of the vocabulary. */
#ifndef DPX_TOOLS_UNIGRAM_H
#define DPX_TOOLS_UNIGRAM_H

#include <stdbool.h>

#include "tools/text/bpe.h"

typedef struct Unigram Unigram;

Status unigram_create(Unigram **out) CHECKED;
void unigram_free(Unigram *u); /* NULL is legal */
/* Adds a piece and its score, a logarithm of its probability.  A piece that is added again has its last id and score.
 */
Status unigram_add(Unigram *u, const char *piece, size_t n, double score, uint32_t id) CHECKED;
/* Call it behind the last piece.  `unknown`: the id of what is no piece; TOKEN_NONE: such a text is an error.  `bytes`:
 * pieces <0x00> to <0xFF> stand for the bytes of what is no piece, if all of them are there. */
void unigram_complete(Unigram *u, uint32_t unknown, bool bytes);
/* In place of it, for SentencePiece's own ids: sums of scores are rounded to floats, `least` is the least score of a
 * normal piece, and unknown characters are the unknown id or, unless byte[256] is NULL, the ids of their bytes. */
void unigram_complete_spm(Unigram *u, float least, uint32_t unknown, const uint32_t *byte);
/* The bytes of the longest piece that a text begins with; 0: there is none. */
size_t unigram_longest(const Unigram *u, const char *text, size_t n);
uint32_t unigram_find(const Unigram *u, const char *piece, size_t n); /* TOKEN_NONE: it is no piece */
/* Adds the pieces of a valid text whose scores have the largest sum.  A character that is no piece costs 10 more than
 * the least probable piece; such characters side by side are one unknown token.  E_INVALID: there is none.  For one
 * thread at a time. */
Status unigram_encode(Unigram *u, const char *text, size_t n, TokenIds *out) CHECKED;

#endif
