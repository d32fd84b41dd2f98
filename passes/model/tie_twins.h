/* Which matrices are each other's transposes (tie_twins.c). */
#ifndef DPX_TIE_TWINS_H
#define DPX_TIE_TWINS_H

#include "passes/pass.h"

/* Is a matrix whose name matches the pattern the transpose of another? */
Status twins_match(bool *out, const Graph *g, PassCtx *ctx, const char *pattern) CHECKED;

#endif
