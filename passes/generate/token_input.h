/* The inputs of a language model that reads its text token by token (BUILD_CONTINUE). */
#ifndef DPX_PASS_TOKEN_INPUT_H
#define DPX_PASS_TOKEN_INPUT_H

#include "graph/ir/op.h"

/* The input that passes/generate/cache_keys.c adds: int64 [tokens], the position of each. */
#define IN_POSITION "dpexec.position"
/* Prefix of the states in which it keeps values of earlier tokens. */
#define STATE_CACHE "dpexec.cache."

/* The only input of integers [1, T] whose name contains neither "mask" nor "position"; NO_VALUE: there is none, or
 * another input is neither a mask nor positions. */
ValueId token_input(const Graph *g);

#endif
