/* Which slices of a tensor are equal: what Unique gives and how much, both of which data decide, comes from here. */
#ifndef DPX_UNIQUE_SLICES_H
#define DPX_UNIQUE_SLICES_H

#include "graph/tensor/tensor.h"

enum { UNIQUE_FLAT = -1 };
/* How many slices along the axis (UNIQUE_FLAT: elements); 0 or more. */
int64_t unique_slices(const Shape *x, int axis);
/* How many differ, of n slices.  group[i] becomes the number of slice i among those, first[k] the first slice of number
 * k: by their elements, or in the order of first slices.  NaN equals NaN, and is above all numbers.  `room` is for
 * 2 n. */
int64_t unique_find(const Tensor *x, int axis, bool sorted, int64_t *group, int64_t *first, int64_t *room);

#endif
