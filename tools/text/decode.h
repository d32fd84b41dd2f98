/* The text of token ids, for people. */
#ifndef DPX_TOOLS_DECODE_H
#define DPX_TOOLS_DECODE_H

#include "tools/text/tokenizer.h"

/* Adds the text of n ids to `out` as valid UTF-8: a token that the tokenizer lacks, and bytes that are no UTF-8, become
 * U+FFFD. */
Status decode_tokens(TextBuffer *out, const Tokenizer *t, const uint32_t *id, size_t n) CHECKED;

#endif
