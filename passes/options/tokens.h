/* Options of inference token by token (BUILD_CONTINUE). */
#ifndef DPX_PASSES_OPTIONS_TOKENS_H
#define DPX_PASSES_OPTIONS_TOKENS_H

#include <stdint.h>

typedef struct BuildOptions BuildOptions;

typedef struct TokenOptions {
    int64_t window; /* tokens of a text at most, at positions from 0 */
    int64_t tokens; /* of these, given in a step */
} TokenOptions;

const TokenOptions *token_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
