/* Shapes of dense row-major tensors. */
#ifndef DPX_SHAPE_H
#define DPX_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/base/status.h"

enum { MAX_RANK = 8, SHAPE_TEXT = 128 };

/* rank -1: nothing is known.  dim -1: this dimension is not known. */
typedef struct {
    int rank;
    int64_t dim[MAX_RANK];
} Shape;

#define SHAPE(...) \
    shape_of((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]){ __VA_ARGS__ })
Shape shape_of(int rank, const int64_t *dim);
Shape shape_scalar(void);
Shape shape_unknown(void);
bool shape_known(const Shape *s); /* rank and every dimension */
bool shape_eq(const Shape *a, const Shape *b);
int64_t shape_numel(const Shape *s);                   /* -1 when not known; asserts no overflow (see shape_check) */
int64_t shape_count(const Shape *s, int from, int to); /* product of dim[from..to) */
int64_t shape_rows(const Shape *s);                    /* product of all dimensions but the last; -1: unknown */
int64_t shape_columns(const Shape *s);                 /* the last dimension; -1: unknown */
/* The lines along an axis: outer * inner lines of n elements, which are `inner` apart. */
typedef struct {
    int64_t outer, n, inner;
} AxisLines;
AxisLines shape_lines(const Shape *s, int axis);
/* The first element of a line. */
static inline int64_t line_at(const AxisLines *l, int64_t line)
{
    return line / l->inner * l->n * l->inner + line % l->inner;
}
void shape_strides(const Shape *s, int64_t *stride); /* in elements, row-major */
/* E_SHAPE when a dimension is negative or the bytes of a tensor of this element size overflow int64. */
Status shape_check(const Shape *s, size_t element_size) CHECKED;
/* numpy's rule: align right, 1 stretches.  `what` names the node in the error. */
Status shape_broadcast(Shape *out, const Shape *a, const Shape *b, const char *what) CHECKED;
/* "[2,3,?]", "[]" for a scalar, "?" when the rank is unknown; returns `buf`. */
const char *shape_text(const Shape *s, char buf[SHAPE_TEXT]);
/* axis in [-rank, rank) -> [0, rank). */
Status shape_axis(int *out, int64_t axis, int rank, const char *what) CHECKED;

#endif
