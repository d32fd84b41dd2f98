/* Groups of equal slices: slices are sorted by their elements, then by position, so equal ones are neighbours and the
 * first of them comes first. */
#include "graph/ops/unique_slices.h"

#include <math.h>
#include <string.h>

#include "graph/tensor/strings.h"

int64_t unique_slices(const Shape *x, int axis) { return axis == UNIQUE_FLAT ? shape_numel(x) : x->dim[axis]; }

static int compare_floats(double a, double b) { return isnan(a) || isnan(b) ? isnan(a) - isnan(b) : (a > b) - (a < b); }

static int compare_elements(const Tensor *x, int64_t i, int64_t j)
{
    int64_t a, b;

    if (x->dtype == DT_STRING)
        return text_compare(text_at(x, i), text_at(x, j));
    if (dtype_is_float(x->dtype))
        return compare_floats(tensor_float(x, i), tensor_float(x, j));
    a = tensor_int(x, i);
    b = tensor_int(x, j);
    if (x->dtype == DT_UINT64)
        return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
    return (a > b) - (a < b);
}

/* Compares two slices of x, seen as [outer, slices, inner]. */
static int unique_slices_compare(const Tensor *x, const Shape *seen, int64_t i, int64_t j)
{
    const int64_t outer = seen->dim[0], n = seen->dim[1], inner = seen->dim[2];
    int c = 0;

    for (int64_t o = 0; o < outer && !c; o++)
        for (int64_t k = 0; k < inner && !c; k++)
            c = compare_elements(x, (o * n + i) * inner + k, (o * n + j) * inner + k);
    return c;
}

/* A stable merge sort. */
static void sort(const Tensor *x, const Shape *seen, int64_t *order, int64_t *room)
{
    const int64_t n = seen->dim[1];

    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t at = 0; at < n; at += 2 * width) {
            const int64_t middle = at + width < n ? at + width : n, end = middle + width < n ? middle + width : n;
            int64_t i = at, j = middle;

            for (int64_t k = at; k < end; k++)
                room[k] = j == end || (i < middle && unique_slices_compare(x, seen, order[i], order[j]) <= 0)
                              ? order[i++]
                              : order[j++];
        }
        memcpy(order, room, (size_t)n * sizeof *order);
    }
}

int64_t unique_find(const Tensor *x, int axis, bool sorted, int64_t *group, int64_t *first, int64_t *room)
{
    const Shape *shape = &x->shape;
    const int64_t n = unique_slices(shape, axis);
    const Shape seen = axis == UNIQUE_FLAT
                           ? SHAPE(1, n, 1)
                           : SHAPE(shape_count(shape, 0, axis), n, shape_count(shape, axis + 1, shape->rank));
    int64_t *order = room, *number = room, count = 0, next = 0;

    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    sort(x, &seen, order, room + n);
    for (int64_t i = 0; i < n; i++) {
        if (!i || unique_slices_compare(x, &seen, order[i - 1], order[i]))
            first[count++] = order[i];
        group[order[i]] = count - 1;
    }
    if (sorted)
        return count;
    for (int64_t i = 0; i < n; i++) /* renumbers the groups by their first slices */
        if (first[group[i]] == i)
            number[group[i]] = next++;
    for (int64_t i = 0; i < n; i++)
        group[i] = number[group[i]];
    for (int64_t i = n; i-- > 0;)
        first[group[i]] = i;
    return count;
}
