/* Matrices of the file that are transposes of each other (tie_twins.c). */
#ifndef DPX_TIE_TWINS_H
#define DPX_TIE_TWINS_H

#include "passes/pass.h"

/* *out: is a matrix whose name matches the fnmatch pattern the transpose of another constant of the graph?  Only
 * hashes are compared.  E_NOMEM is the only failure. */
Status twins_match(bool *out, const Graph *g, PassCtx *ctx, const char *pattern) CHECKED;

#endif
