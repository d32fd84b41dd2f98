/* What pooling operators, their kernels and passes share. */
#ifndef DPX_OPS_POOL_H
#define DPX_OPS_POOL_H

#include "graph/ops/window.h"

/* MaxPoolPlaces has windows of at most so many positions: a byte counts them in row-major order, and POOL_PLACES stands
 * for the place of a window that lies in the padding as a whole. */
enum { POOL_PLACES = 255 };

#endif
