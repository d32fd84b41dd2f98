/* DetGrad (det.c) in ONNX's operators: the gradient times the matrix of cofactors.
 *
 * Cofactors of a small matrix A are determinants of A without a row and a column.  For a larger matrix, size - 1 steps
 * of Gauss-Jordan elimination with complete pivoting, in double as in the kernel, take [A, I] to E [A, I] = [X, E].  X
 * has a one in each pivot's row and column.  Column c, the one without a pivot, holds the numbers v, sorted by the
 * pivots' columns, and the last pivot w, by which nothing is divided.  Let P be the permutation that takes each pivot's
 * row, and the row without a pivot, to its column.  Then Y = P X = I + (v - e_c) e_c' and
 *
 *   adj A = adj(Y) adj(P') adj(E^-1) = det P (product of pivots) (w F - v F_c + e_c F_c),   F = P E
 *
 * where F_c is row c of F; row c of the sum is F_c itself.  With a pivot of 0 the product, and so each cofactor, is 0.
 */
#include "graph/ops/det_standard.h"

#include "graph/ir/emit.h"
#include "graph/ops/arg.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/det.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

enum { MINORS_SIZE = 4, MAX_SIZE = 256 /* a step of elimination has some twenty nodes */ };

/* Matrices x [matrices,size,size] and the gradient dy [matrices,1,1].  By elimination: [X, E]; masks of the rows
 * [matrices,size,1] and columns [matrices,1,size] without a pivot and of the pivots [matrices,size,size]; the product
 * of the pivots [matrices,1,1]. */
typedef struct {
    Graph *g;
    int64_t count, size;
    ValueId x, dy;
    ValueId both, rows, columns, pivots, product;
} Matrices;

/* ---- minors ---- */

/* [n, n - 1]: row i lists all indices but i. */
static ValueId others(Graph *g, int64_t n)
{
    const Shape s = SHAPE(n, n - 1);
    Tensor *t = tensor_create(g->arena, DT_INT64, &s);

    if (!t) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n - 1; k++)
            tensor_set_int(t, i * (n - 1) + k, k < i ? k : k + 1);
    return graph_add_const_nocopy(g, "others", t);
}

/* [n, n]: (-1)^(row + column). */
static ValueId signs(Graph *g, DType type, int64_t n)
{
    const Shape s = SHAPE(n, n);
    Tensor *t = tensor_create(g->arena, type, &s);

    if (!t) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < n * n; i++)
        tensor_set_float(t, i, (i / n + i % n) % 2 ? -1 : 1);
    return graph_add_const_nocopy(g, "signs", t);
}

static ValueId by_minors(const Matrices *m)
{
    Graph *g = m->g;
    const ValueId but = others(g, m->size);
    ValueId y = EMIT(g, Gather, ATTRS(INT("axis", 2)), m->x, but);

    y = EMIT(g, Gather, ATTRS(INT("axis", 1)), y, but);
    y = emit_transpose(g, y, 5, (int64_t[]){ 0, 1, 3, 2, 4 }); /* row, column, others, others */
    y = EMIT(g, Det, NULL, y);
    y = EMIT(g, Mul, NULL, y, signs(g, value(g, m->x)->dtype, m->size));
    return EMIT(g, Mul, NULL, y, m->dy);
}

/* ---- elimination ---- */

static ValueId number(const Matrices *m, double v) { return emit_scalar(m->g, DT_FLOAT64, v); }

/* The number along an axis that the mask `which` selects, as a masked sum. */
static ValueId pick(const Matrices *m, ValueId which, ValueId v, int64_t axis)
{
    Graph *g = m->g;

    return emit_reduce_sum(g, EMIT(g, Where, NULL, which, v, number(m, 0)), 1, &axis, true);
}

/* X (0) or E (1). */
static ValueId half(const Matrices *m, int which)
{
    return emit_slice(m->g, m->both, 2, which * m->size, (which + 1) * m->size);
}

/* 0, 1 ... size - 1, as a row [1,1,size] or a column [1,size,1]. */
static ValueId count(const Matrices *m, bool column)
{
    const int64_t n = m->size;
    const Shape s = { .rank = 3, .dim = { 1, column ? n : 1, column ? 1 : n } };
    Tensor *t = tensor_create(m->g->arena, DT_INT64, &s);

    if (!t) {
        (void)graph_fail_nomem(m->g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < n; i++)
        tensor_set_int(t, i, i);
    return graph_add_const_nocopy(m->g, "count", t);
}

/* Masks of the row and the column of the largest number in the rows and columns without a pivot. */
static void find_pivot(const Matrices *m, ValueId x, ValueId *row, ValueId *column)
{
    Graph *g = m->g;
    const int64_t n = m->size;
    const Shape flat = SHAPE(m->count, n * n), one = SHAPE(m->count, 1, 1);
    const ValueId left = EMIT(g, And, NULL, m->rows, m->columns), size = emit_scalar(g, DT_INT64, (double)n);
    ValueId at = EMIT(g, Abs, NULL, x), place;

    at = EMIT(g, Where, NULL, left, at, number(m, -1));
    at = EMIT(g, ArgMax, ATTRS(INT("axis", 1)), emit_reshape(g, at, &flat));
    at = emit_reshape(g, at, &one);
    place = count(m, true);
    *row = EMIT(g, Equal, NULL, place, EMIT(g, Div, NULL, at, size));
    place = count(m, false);
    *column = EMIT(g, Equal, NULL, place, EMIT(g, Mod, NULL, at, size));
}

static void take_pivot(Matrices *m, ValueId row, ValueId column)
{
    Graph *g = m->g;

    m->rows = EMIT(g, And, NULL, m->rows, EMIT(g, Not, NULL, row));
    m->columns = EMIT(g, And, NULL, m->columns, EMIT(g, Not, NULL, column));
    m->pivots = EMIT(g, Or, NULL, m->pivots, EMIT(g, And, NULL, row, column));
}

static void eliminate(Matrices *m)
{
    Graph *g = m->g;
    const ValueId x = half(m, 0);
    ValueId row, column, pivot, is_zero, factors, by;

    find_pivot(m, x, &row, &column);
    factors = pick(m, column, x, 2);
    pivot = pick(m, row, factors, 1);
    m->product = EMIT(g, Mul, NULL, m->product, pivot);
    is_zero = EMIT(g, Equal, NULL, pivot, number(m, 0));
    pivot = EMIT(g, Where, NULL, is_zero, number(m, 1), pivot);
    by = EMIT(g, Div, NULL, pick(m, row, m->both, 1), pivot);
    factors = EMIT(g, Mul, NULL, factors, by);
    m->both = EMIT(g, Where, NULL, row, by, EMIT(g, Sub, NULL, m->both, factors));
    take_pivot(m, row, column);
}

/* [1,size,size] */
static ValueId identity(const Matrices *m)
{
    const int64_t n = m->size;
    const Shape s = SHAPE(1, n, n);
    Tensor *t = tensor_create(m->g->arena, DT_FLOAT64, &s);

    if (!t) {
        (void)graph_fail_nomem(m->g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < n * n; i++)
        tensor_set_float(t, i, i / n == i % n);
    return graph_add_const_nocopy(m->g, "identity", t);
}

static ValueId by_elimination(Matrices *m)
{
    static const int64_t turned[] = { 0, 2, 1 };
    Graph *g = m->g;
    const Shape all = SHAPE(m->count, m->size, m->size), rows = SHAPE(m->count, m->size, 1),
                columns = SHAPE(m->count, 1, m->size), one = SHAPE(m->count, 1, 1);
    const ValueId units = emit_expand(g, identity(m), &all);
    ValueId row, column, x, to, sign, f, v, last, y;

    m->rows = emit_full(g, DT_BOOL, &rows, 1);
    m->columns = emit_full(g, DT_BOOL, &columns, 1);
    m->pivots = emit_full(g, DT_BOOL, &all, 0);
    m->product = emit_full(g, DT_FLOAT64, &one, 1);
    m->both = EMIT(g, Concat, ATTRS(INT("axis", 2)), emit_cast(g, m->x, DT_FLOAT64), units);
    for (int64_t k = 0; k < m->size - 1; k++)
        eliminate(m);
    row = m->rows;
    column = m->columns;
    take_pivot(m, row, column);
    to = emit_transpose(g, emit_cast(g, m->pivots, DT_FLOAT32), 3, turned);
    sign = EMIT(g, Det, NULL, to);
    to = emit_cast(g, to, DT_FLOAT64);
    x = pick(m, column, half(m, 0), 2);
    v = EMIT(g, MatMul, NULL, to, x);
    f = EMIT(g, MatMul, NULL, to, half(m, 1));
    last = pick(m, row, half(m, 1), 1);
    y = EMIT(g, Mul, NULL, pick(m, row, x, 1), f);
    y = EMIT(g, Sub, NULL, y, EMIT(g, Mul, NULL, v, last));
    y = EMIT(g, Where, NULL, emit_transpose(g, column, 3, turned), last, y);
    sign = emit_reshape(g, emit_cast(g, sign, DT_FLOAT64), value(g, m->dy)->shape);
    sign = EMIT(g, Mul, NULL, sign, EMIT(g, Mul, NULL, m->product, emit_cast(g, m->dy, DT_FLOAT64)));
    y = emit_transpose(g, EMIT(g, Mul, NULL, y, sign), 3, turned);
    return emit_cast(g, y, value(g, m->x)->dtype);
}

Status det_standard_grad(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    const int64_t size = x->dim[x->rank - 1];
    const Shape all = SHAPE(size ? shape_numel(x) / (size * size) : 0, size, size), one = SHAPE(all.dim[0], 1, 1);
    Matrices m = { .g = g, .count = all.dim[0], .size = size };
    ValueId y;

    if (size > MAX_SIZE)
        return ST_OK;
    if (!shape_numel(x)) {
        graph_replace(g, n->out[0], emit_zeros_like(g, n->in[0]));
        return g->status;
    }
    m.x = emit_reshape(g, n->in[0], &all);
    m.dy = emit_reshape(g, n->in[1], &one);
    if (size > 1) { /* elimination may drop a NaN: dy becomes NaN for a matrix with one */
        ValueId nan = EMIT(g, IsNaN, NULL, m.x);

        nan = EMIT(g, Where, NULL, nan, m.x, emit_scalar(g, value(g, m.x)->dtype, 0));
        m.dy = EMIT(g, Add, NULL, m.dy, emit_reduce_sum(g, nan, 2, (const int64_t[]){ 1, 2 }, true));
    }
    y = size == 1 ? m.dy : size <= MINORS_SIZE ? by_minors(&m) : by_elimination(&m);
    graph_replace(g, n->out[0], emit_reshape(g, y, x));
    return g->status;
}
