/* The norm of gradients of a power other than 2. */
#ifndef DPX_POWER_NORM_H
#define DPX_POWER_NORM_H

#include "graph/ir/graph.h"

/* Emits the norm of n whole gradients of type t together: (sum of |x|^power)^(1 / power), or the largest |x| where
 * power is INFINITY.  Elements are divided by the largest one first, so that no power overflows. */
ValueId power_norm(Graph *g, int n, const ValueId *grad, double power, DType t);

#endif
