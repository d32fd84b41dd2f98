/* Shapes: products, broadcasting, text.  shape_check bounds the number of bytes when a shape enters the graph, so that
 * later products cannot overflow. */
#include "graph/tensor/shape.h"

#include <assert.h>
#include <stdio.h>

Shape shape_of(int rank, const int64_t *dim)
{
    Shape s = { .rank = rank };

    assert(rank <= MAX_RANK);
    for (int i = 0; i < rank; i++)
        s.dim[i] = dim[i];
    return s;
}

Shape shape_scalar(void) { return (Shape){ 0 }; }

Shape shape_unknown(void) { return (Shape){ .rank = -1 }; }

bool shape_known(const Shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0)
            return false;
    return s->rank >= 0;
}

bool shape_eq(const Shape *a, const Shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

int64_t shape_count(const Shape *s, int from, int to)
{
    int64_t n = 1;

    for (int i = from; i < to; i++)
        n *= s->dim[i];
    return n;
}

int64_t shape_columns(const Shape *s) { return s->rank > 0 ? s->dim[s->rank - 1] : s->rank ? -1 : 1; }

int64_t shape_rows(const Shape *s)
{
    if (!shape_known(s))
        return -1;
    return s->rank ? shape_count(s, 0, s->rank - 1) : 1;
}

int64_t shape_numel(const Shape *s) { return shape_known(s) ? shape_count(s, 0, s->rank) : -1; }

AxisLines shape_lines(const Shape *s, int axis)
{
    return (AxisLines){ shape_count(s, 0, axis), s->dim[axis], shape_count(s, axis + 1, s->rank) };
}

void shape_strides(const Shape *s, int64_t *stride)
{
    int64_t n = 1;

    for (int i = s->rank - 1; i >= 0; i--) {
        stride[i] = n;
        n *= s->dim[i];
    }
}

Status shape_check(const Shape *s, size_t element_size)
{
    int64_t n = (int64_t)(element_size ? element_size : 1);
    char text[SHAPE_TEXT];

    if (s->rank > MAX_RANK)
        return FAIL(E_SHAPE, "rank %d: at most %d dimensions are supported", s->rank, MAX_RANK);
    for (int i = 0; i < s->rank; i++) {
        int64_t d = s->dim[i];

        if (d < 0)
            return FAIL(E_SHAPE, "shape %s: dimension %d is %lld, expected 0 or more", shape_text(s, text), i,
                        (long long)d);
        if (d > 1 && n > (INT64_MAX >> 1) / d) /* zero dimensions do not excuse an absurd one */
            return FAIL(E_SHAPE, "shape %s: the size overflows", shape_text(s, text));
        n *= d > 1 ? d : 1;
    }
    return ST_OK;
}

Status shape_broadcast(Shape *out, const Shape *a, const Shape *b, const char *what)
{
    Shape o = { .rank = a->rank > b->rank ? a->rank : b->rank };
    char ta[SHAPE_TEXT], tb[SHAPE_TEXT];

    for (int i = 0; i < o.rank; i++) {
        int ia = i - (o.rank - a->rank), ib = i - (o.rank - b->rank);
        int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];

        if (da != db && da != 1 && db != 1)
            return FAIL(E_SHAPE, "%s: shapes %s and %s do not broadcast", what, shape_text(a, ta), shape_text(b, tb));
        o.dim[i] = da == 1 ? db : da;
    }
    *out = o;
    return ST_OK;
}

const char *shape_text(const Shape *s, char buf[SHAPE_TEXT])
{
    int n = 0;

    if (s->rank < 0)
        return snprintf(buf, SHAPE_TEXT, "?"), buf;
    n += snprintf(buf, SHAPE_TEXT, "[");
    for (int i = 0; i < s->rank && n < SHAPE_TEXT - 24; i++)
        n += s->dim[i] < 0 ? snprintf(buf + n, (size_t)(SHAPE_TEXT - n), "%s?", i ? "," : "")
                           : snprintf(buf + n, (size_t)(SHAPE_TEXT - n), "%s%lld", i ? "," : "", (long long)s->dim[i]);
    snprintf(buf + n, (size_t)(SHAPE_TEXT - n), "]");
    return buf;
}

Status shape_axis(int *out, int64_t axis, int rank, const char *what)
{
    if (!rank)
        return FAIL(E_SHAPE, "%s: axis %lld of rank 0, expected a tensor with axes", what, (long long)axis);
    if (axis < -rank || axis >= rank)
        return FAIL(E_SHAPE, "%s: axis %lld of rank %d, expected %d to %d", what, (long long)axis, rank, -rank,
                    rank - 1);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return ST_OK;
}
