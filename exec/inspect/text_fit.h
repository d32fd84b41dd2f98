/* Text that fits into a width of a picture, whichever common font draws it. */
#ifndef DPX_INSPECT_TEXT_FIT_H
#define DPX_INSPECT_TEXT_FIT_H

#include <stdbool.h>

#include "graph/base/arena.h"

/* An upper bound of the width in pixels of one line in Helvetica, Arial, Liberation Sans or DejaVu Sans, the widest of
 * these.  A character without a known width counts 1.3 times the font's size; *known, which may be NULL, becomes false
 * where there is one. */
double text_width(const char *s, double size, bool bold, bool *known);
/* `s` if it is at most `width` wide; else as much of it as fits, with "…" at its end, or with `middle` between its two
 * ends.  Characters that must not be shown become '?'.  NULL: out of memory. */
const char *text_fit(Arena *a, const char *s, double width, double size, bool bold, bool middle);

#endif
