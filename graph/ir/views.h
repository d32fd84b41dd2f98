/* A value as steps through the elements of another: what Reshape, Transpose, Slice, Split and their like make of it.
 *
 * An axis is a list of digits, the slowest first: its index i stands for digits d of those sizes, and the element is
 * found at offset + sum of d * step over the digits of all axes.  Two axes that were joined keep their digits, so that
 * joining and cutting axes loses nothing. */
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

/* The elements of a value of that shape, one after the other. */
void strided_rows(Strided *s, const Shape *shape);
/* Each of these changes the view as the operator does; false, with `s` undefined, where that cannot be said in digits.
 */
bool strided_reshape(Strided *s, const Shape *to);
bool strided_permute(Strided *s, const int64_t *perm);
bool strided_slice(Strided *s, int axis, int64_t start, int64_t step, int64_t count);

/* Are these the elements of its base from the first on, one after the other? */
bool strided_is_rows(const Strided *s);
/* The digits of an axis, neighbours that step alike being one: how many of at most `most`; -1: there are more. */
int strided_axis(const Strided *s, int axis, int most, Digit *out);

/* `v` as a view of `*base`, which is none itself as far as can be said.  Types and shapes are known up to there.  While
 * a rewrite is open, inputs are read through it. */
void strided_of(Strided *s, ValueId *base, const Graph *g, ValueId v);

#endif
