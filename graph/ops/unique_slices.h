/* Groups of equal slices of a tensor: the number and the indices that Unique returns. */
#ifndef DPX_UNIQUE_SLICES_H
#define DPX_UNIQUE_SLICES_H

#include "graph/tensor/tensor.h"

enum { UNIQUE_FLAT = -1 };
/* Number of slices along the axis (UNIQUE_FLAT: elements). */
int64_t unique_slices(const Shape *x, int axis);
/* Returns the number of groups of equal slices among n.  group[i] receives the group of slice i, first[k] the first
 * slice of group k.  Groups are ordered by their elements if `sorted`, else by their first slices.  NaN equals NaN, and
 * is above all numbers.  `room` has 2 n entries. */
int64_t unique_find(const Tensor *x, int axis, bool sorted, int64_t *group, int64_t *first, int64_t *room);

#endif
