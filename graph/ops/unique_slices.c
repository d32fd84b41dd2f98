/* Groups of equal slices: slices are sorted by their elements, then by position, so equal ones are neighbours and the
 * first of them comes first. */
#include "graph/ops/unique_slices.h"

#include <math.h>
#include <string.h>

#include "graph/tensor/strings.h"

typedef struct {
    const Tensor *x;
    int64_t n, outer, inner; /* number of slices; of elements before and after the axis */
} Slices;

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

static int unique_slices_compare(const Slices *s, int64_t i, int64_t j)
{
    int c = 0;

    for (int64_t o = 0; o < s->outer && !c; o++)
        for (int64_t k = 0; k < s->inner && !c; k++)
            c = compare_elements(s->x, (o * s->n + i) * s->inner + k, (o * s->n + j) * s->inner + k);
    return c;
}

/* A stable merge sort. */
static void sort(const Slices *s, int64_t *order, int64_t *room)
{
    for (int64_t width = 1; width < s->n; width *= 2) {
        for (int64_t at = 0; at < s->n; at += 2 * width) {
            const int64_t middle = at + width < s->n ? at + width : s->n,
                          end = middle + width < s->n ? middle + width : s->n;
            int64_t i = at, j = middle;

            for (int64_t k = at; k < end; k++)
                room[k] = j == end || (i < middle && unique_slices_compare(s, order[i], order[j]) <= 0) ? order[i++]
                                                                                                        : order[j++];
        }
        memcpy(order, room, (size_t)s->n * sizeof *order);
    }
}

int64_t unique_find(const Tensor *x, int axis, bool sorted, int64_t *group, int64_t *first, int64_t *room)
{
    const Shape *shape = &x->shape;
    const Slices s = axis == UNIQUE_FLAT ? (Slices){ x, shape_numel(shape), 1, 1 }
                                         : (Slices){ x, shape->dim[axis], shape_count(shape, 0, axis),
                                                     shape_count(shape, axis + 1, shape->rank) };
    int64_t *order = room, *number = room, count = 0, next = 0;

    for (int64_t i = 0; i < s.n; i++)
        order[i] = i;
    sort(&s, order, room + s.n);
    for (int64_t i = 0; i < s.n; i++) {
        if (!i || unique_slices_compare(&s, order[i - 1], order[i]))
            first[count++] = order[i];
        group[order[i]] = count - 1;
    }
    if (sorted)
        return count;
    for (int64_t i = 0; i < s.n; i++) /* renumbers the groups by their first slices */
        if (first[group[i]] == i)
            number[group[i]] = next++;
    for (int64_t i = 0; i < s.n; i++)
        group[i] = number[group[i]];
    for (int64_t i = s.n; i-- > 0;)
        first[group[i]] = i;
    return count;
}
