/* Regular expressions of tokenizer.json files: written for Oniguruma, matched by PCRE2. */
#ifndef DPX_TOOLS_SPLIT_PATTERN_H
#define DPX_TOOLS_SPLIT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "graph/base/status.h"

typedef struct SplitPattern SplitPattern;

/* Compiles a pattern; `literal`: a text that means itself.  E_UNSUPPORTED for constructs that the two libraries read
 * differently, and for patterns that match the empty text; E_INVALID for patterns that PCRE2 refuses. */
Status split_pattern_create(SplitPattern **out, const char *pattern, bool literal) CHECKED;
void split_pattern_free(SplitPattern *p); /* NULL is legal */
/* The first match in text[from, n): [*start, *end), or [n, n) without one.  The text is valid UTF-8, and lookbehind
 * sees all of text[0, from).  E_INVALID when the pattern backtracks too much.  For one thread at a time. */
Status split_pattern_next(SplitPattern *p, const char *text, size_t n, size_t from, size_t *start, size_t *end) CHECKED;

#endif
