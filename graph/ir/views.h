/* Strided views: the result of Reshape, Transpose, Slice, Split ... as steps through the elements of another value.
 *
 * An axis is a list of digits, the slowest first.  The axis' index is written in a mixed radix with the digits' sizes;
 * the element lies at offset + sum of digit value * step over the digits of all axes.  Axes that are joined keep their
 * digits, so joining and splitting axes loses nothing.  For example the transpose of x [2,3] has the axes { (3, step 1)
 * } and { (2, step 3) }; reshaped to [6], it is one axis with both digits. */
#ifndef DPX_VIEWS_H
#define DPX_VIEWS_H

#include "graph/ir/graph.h"

enum { STRIDED_DIGITS = 16 };

typedef struct {
    int64_t size, step;
    int axis;
} Digit;

typedef struct {
    int64_t offset;
    int rank, n_digit;
    Digit digit[STRIDED_DIGITS]; /* by axis; an axis of size 1 has none */
} Strided;

/* Each of these changes the view as the operator does; false, with `s` undefined, if digits cannot express that. */
bool strided_reshape(Strided *s, const Shape *to);
bool strided_permute(Strided *s, const int64_t *perm);
bool strided_slice(Strided *s, int axis, int64_t start, int64_t step, int64_t count);

/* Are these the elements of the base in row-major order from the first on? */
bool strided_is_rows(const Strided *s);
/* Writes the digits of an axis, contiguous neighbours joined, and returns their number; -1: more than `most`. */
int strided_axis(const Strided *s, int axis, int most, Digit *out);

/* Describes `v` as a view of *base, the first value up the chain of views that no digits express as a view.  Types and
 * shapes are known up to there.  An open rewrite is applied. */
void strided_of(Strided *s, ValueId *base, const Graph *g, ValueId v);

#endif
