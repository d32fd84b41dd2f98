/* Formulas as graphs: each call appends a node and returns its output.
 *
 * Shapes and types are inferred at once, so the next emit can rely on them.  Failure is sticky in g->status (like
 * ferror): after a failure every emit returns NO_VALUE and does nothing.  At most one operand of an expression
 * may emit: C leaves the order of evaluation open, and node order must not depend on the compiler.  Name the others
 * first:
 *
 *     const ValueId above = EMIT(g, Mul, NULL, a, b);
 *
 *     return EMIT(g, Div, NULL, above, EMIT(g, Add, NULL, c, d)); */
#ifndef DPX_EMIT_H
#define DPX_EMIT_H

#include "graph/ir/op.h"

ValueId emit(Graph *g, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in);
/* The same with `n_out` outputs, all returned in `out`; NULL on failure. */
Node *emit_multi(Graph *g, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in, int n_out, ValueId *out);

#define EMIT_N(...) (int)(sizeof((ValueId[]){ __VA_ARGS__ }) / sizeof(ValueId))
#define EMIT(g, Op, attrs, ...) emit((g), &op_##Op, (attrs), EMIT_N(__VA_ARGS__), (const ValueId[]){ __VA_ARGS__ })
#define EMIT_MULTI(g, Op, attrs, n_out, out, ...) \
    emit_multi((g), &op_##Op, (attrs), EMIT_N(__VA_ARGS__), (const ValueId[]){ __VA_ARGS__ }, (n_out), (out))

ValueId emit_scalar(Graph *g, DType dtype, double v);               /* a 0-d constant */
ValueId emit_ints(Graph *g, int n, const int64_t *v);               /* a 1-d int64 constant */
ValueId emit_shape_const(Graph *g, const Shape *s);                 /* the dimensions as a 1-d int64 constant */
ValueId emit_full(Graph *g, DType dtype, const Shape *s, double v); /* scalar constant + Expand (scalar: constant) */
ValueId emit_zeros_like(Graph *g, ValueId like);
/* Returns x itself when nothing changes; so do the functions below. */
ValueId emit_reshape(Graph *g, ValueId x, const Shape *s);
/* Cuts each axis at its end, or pads it there with zeros, to the size in s. */
ValueId emit_fit(Graph *g, ValueId x, const Shape *s);
ValueId emit_expand(Graph *g, ValueId x, const Shape *s);
ValueId emit_cast(Graph *g, ValueId x, DType to);
/* Elements [from, to) along one axis; the second: every `by`-th of them. */
ValueId emit_slice(Graph *g, ValueId x, int64_t axis, int64_t from, int64_t to);
ValueId emit_slice_by(Graph *g, ValueId x, int64_t axis, int64_t from, int64_t to, int64_t by);
ValueId emit_transpose(Graph *g, ValueId x, int rank, const int64_t *perm);
ValueId emit_reduce_sum(Graph *g, ValueId x, int n_axes, const int64_t *axes, bool keepdims); /* n_axes 0: x itself */
/* Sums x down to shape `s`: the gradient of a NumPy broadcast from `s` to x's shape. */
ValueId emit_sum_to_shape(Graph *g, ValueId x, const Shape *s);

#endif
