/* A limit of max-pooling's windows, for operators, kernels and passes. */
#ifndef DPX_OPS_POOL_H
#define DPX_OPS_POOL_H

#include "graph/ops/window.h"

/* Most positions in a window of MaxPoolPlaces: a byte numbers them in row-major order.  POOL_PLACES itself is the place
 * of a window that lies in the padding as a whole. */
enum { POOL_PLACES = 255 };

#endif
