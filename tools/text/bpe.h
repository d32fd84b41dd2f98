/* Byte pair encoding of words: joins neighbouring tokens by the rank of their merge, until none applies. */
#ifndef DPX_TOOLS_BPE_H
#define DPX_TOOLS_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "graph/base/status.h"

enum { TOKEN_ID_MOST = (1 << 24) - 1 }; /* the largest id that is read */
#define TOKEN_NONE UINT32_MAX

/* Token ids, which grow by heap_reserve. */
typedef struct {
    uint32_t *id;
    size_t n, room;
} TokenIds;

Status token_ids_add(TokenIds *t, uint32_t id) CHECKED;

typedef struct Bpe Bpe;

/* Without any token yet.  `merges` of them may be added. */
Status bpe_create(Bpe **out, size_t merges) CHECKED;
void bpe_free(Bpe *b); /* NULL is legal */
void bpe_set_byte(Bpe *b, uint8_t byte, uint32_t id);
/* Ranks follow the order of the calls.  A pair that is added again has its last rank, as in tokenizers. */
void bpe_add_merge(Bpe *b, uint32_t left, uint32_t right, uint32_t merged);
/* A word that is one token, whatever the merges say (ignore_merges). */
Status bpe_add_word(Bpe *b, const char *word, size_t n, uint32_t id) CHECKED;
/* Adds the tokens of a word.  E_INVALID when a byte of it has no token.  For one thread at a time: words are kept. */
Status bpe_encode(Bpe *b, const uint8_t *word, size_t n, TokenIds *out) CHECKED;

#endif
