/* What the passes about layouts share. */
#ifndef DPX_LAYOUT_H
#define DPX_LAYOUT_H

#include "passes/pass.h"

/* Do the two layouts of this shape differ? */
bool layout_matters(const Shape *s);

#endif
