/* r2: the coefficient of determination, 1 - sum (t - y)^2 / sum (t - mean t)^2, for each output; the mean over outputs.
 *
 * The squares are summed about a shift, and not about zero, which would lose the digits of targets that lie far from
 * it.  The shift is the mean of the first batch's targets.  A later batch is summed about its own mean m2, which lies
 * d = m2 - m1 from the shift, and then moved:
 *
 *   sum (t - m1) = sum (t - m2) + n d,  sum (t - m1)^2 = sum (t - m2)^2 + 2 d sum (t - m2) + n d^2
 *
 * In the end sum (t - mean t)^2 = sum (t - m1)^2 - (sum (t - m1))^2 / n.  A column of b->sum, float64 [5, outputs], has
 * n, the shift, both sums about it and sum (t - y)^2. */
#include <float.h>
#include <math.h>

#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/where.gen.h"
#include "graph/recipes/metric.h"

enum { COUNT, SHIFT, SUM, SQUARES, ERRORS, ROWS };

static ValueId square(Graph *g, ValueId x) { return EMIT(g, Mul, NULL, x, x); }

static void r2_emit_metric(LossBody *b, const void *settings)
{
    Graph *g = b->g;
    const ValueId y = emit_cast(g, b->y, DT_FLOAT64), t = emit_cast(g, b->target, DT_FLOAT64);
    const int64_t axis = b->batch;
    ValueId row[ROWS], off;
    double n;
    Shape line;

    (void)settings;
    if (g->status)
        return;
    n = (double)value(g, y)->shape->dim[axis];
    row[SHIFT] = emit_reduce_sum(g, t, 1, &axis, true);
    row[SHIFT] = EMIT(g, Div, NULL, row[SHIFT], emit_scalar(g, DT_FLOAT64, fmax(n, 1)));
    off = EMIT(g, Sub, NULL, t, row[SHIFT]);
    row[SUM] = emit_reduce_sum(g, off, 1, &axis, true);
    row[SQUARES] = emit_reduce_sum(g, square(g, off), 1, &axis, true);
    row[ERRORS] = emit_reduce_sum(g, square(g, EMIT(g, Sub, NULL, y, t)), 1, &axis, true);
    if (g->status)
        return;
    line = SHAPE(1, shape_numel(value(g, row[SHIFT])->shape));
    row[COUNT] = emit_full(g, DT_FLOAT64, &line, n);
    for (int i = SHIFT; i < ROWS; i++)
        row[i] = emit_reshape(g, row[i], &line);
    b->sum = emit(g, &op_Concat, ATTRS(INT("axis", 0)), ROWS, row);
}

/* ---- batches ---- */

static void r2_merge(double *into, const double *more, int64_t n)
{
    const int64_t outputs = n / ROWS;

    for (int64_t i = 0; i < outputs; i++) {
        double *a = into + i, d;
        const double *b = more + i;

        if (a[COUNT] == 0)
            a[SHIFT * outputs] = b[SHIFT * outputs];
        d = b[SHIFT * outputs] - a[SHIFT * outputs];
        a[COUNT] += b[COUNT];
        a[SUM * outputs] += b[SUM * outputs] + b[COUNT] * d;
        a[SQUARES * outputs] += b[SQUARES * outputs] + d * (2 * b[SUM * outputs] + b[COUNT] * d);
        a[ERRORS * outputs] += b[ERRORS * outputs];
    }
}

static void take_rows(ValueId row[ROWS], Graph *g, ValueId table)
{
    for (int i = 0; i < ROWS; i++)
        row[i] = EMIT(g, Gather, ATTRS(INT("axis", 0)), table, emit_ints(g, 1, (int64_t[]){ i }));
}

static ValueId r2_emit_merge(Graph *g, ValueId into, ValueId more)
{
    ValueId a[ROWS], b[ROWS], some, d, nd, squares;

    take_rows(a, g, into);
    take_rows(b, g, more);
    some = EMIT(g, Greater, NULL, a[COUNT], emit_scalar(g, DT_FLOAT64, 0));
    a[SHIFT] = EMIT(g, Where, NULL, some, a[SHIFT], b[SHIFT]);
    d = EMIT(g, Sub, NULL, b[SHIFT], a[SHIFT]);
    nd = EMIT(g, Mul, NULL, b[COUNT], d);
    squares = EMIT(g, Add, NULL, EMIT(g, Add, NULL, b[SUM], b[SUM]), nd);
    squares = EMIT(g, Add, NULL, b[SQUARES], EMIT(g, Mul, NULL, d, squares));
    a[COUNT] = EMIT(g, Add, NULL, a[COUNT], b[COUNT]);
    a[SUM] = EMIT(g, Add, NULL, a[SUM], EMIT(g, Add, NULL, b[SUM], nd));
    a[SQUARES] = EMIT(g, Add, NULL, a[SQUARES], squares);
    a[ERRORS] = EMIT(g, Add, NULL, a[ERRORS], b[ERRORS]);
    return emit(g, &op_Concat, ATTRS(INT("axis", 0)), ROWS, a);
}

/* ---- the value ---- */

/* A single target has no variance.  Where targets vary by no more than the rounding of their mean, an output is 1 if it
 * has no error, else 0, as in scikit-learn. */
static double r2_metric_value(const MetricTotals *t)
{
    const int64_t outputs = t->sum->shape.dim[1];
    const double n = tensor_float(t->sum, 0);
    double all = 0;

    if (n < 2)
        return NAN;
    for (int64_t i = 0; i < outputs; i++) {
        const double sum = tensor_float(t->sum, SUM * outputs + i), errors = tensor_float(t->sum, ERRORS * outputs + i),
                     squares = tensor_float(t->sum, SQUARES * outputs + i) - sum * sum / n,
                     rounding = DBL_EPSILON * tensor_float(t->sum, SHIFT * outputs + i),
                     least = n * rounding * rounding;

        all += squares > least || isnan(squares + errors) ? 1 - errors / squares : errors == 0 ? 1 : 0;
    }
    return all / (double)outputs;
}

DEFINE_METRIC(r2, .recipe = { .name = "r2", .help = "the coefficient of determination, the mean over outputs" },
              .target = TARGET_VALUES, .table = true, .lines = ROWS, .emit = r2_emit_metric, .value = r2_metric_value,
              .emit_merge = r2_emit_merge, .merge = r2_merge);
