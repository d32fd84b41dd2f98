/* Metrics of an order: the area under the ROC curve, and average precision.
 *
 * Batches add up histograms of the scores of positive and of negative targets.  Scores x are logits; x / (1 + |x|),
 * which lies in (-1, 1) and grows with x, is cut into equal bins, so that large logits keep bins of their own.  Scores
 * of one bin count as equal, which bounds the error by what the orders within the bins can change.  An evaluation that
 * keeps all scores has no error. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"
#include "graph/recipes/metric.h"

const Setting rank_args[] = {
    { .name = "bins",
      .metavar = "BINS",
      .fallback = "4096",
      .help = "bins of scores",
      SETTING_OF(RankBins, bins),
      .min = 2,
      .max = 1 << 20 },
    { .name = NULL },
};
const Setting rank_flags[] = { IGNORE_INDEX(RankBins, ignored), { .name = NULL } };

/* ---- scores ---- */

/* The scores of the positive class, as logits in float64: one for each target. */
static ValueId emit_logits(LossBody *b)
{
    Graph *g = b->g;
    const ValueId least = emit_scalar(g, DT_FLOAT64, DBL_MIN), y = emit_cast(g, b->y, DT_FLOAT64);
    ValueId other;

    if (b->binary == BINARY_LOGITS)
        return y;
    if (b->binary == BINARY_PROBABILITIES) {
        other = EMIT(g, Log, NULL, EMIT(g, Max, NULL, EMIT(g, Sub, NULL, emit_scalar(g, DT_FLOAT64, 1), y), least));
        return EMIT(g, Sub, NULL, EMIT(g, Log, NULL, EMIT(g, Max, NULL, y, least)), other);
    }
    other = EMIT(g, Gather, ATTRS(INT("axis", 1)), y, emit_scalar(g, DT_INT64, 0));
    return EMIT(g, Sub, NULL, EMIT(g, Gather, ATTRS(INT("axis", 1)), y, emit_scalar(g, DT_INT64, 1)), other);
}

/* Each score beside its target. */
static void emit_list(LossBody *b, ValueId x, ValueId positive, ValueId counted)
{
    Graph *g = b->g;
    const int64_t last = -1;
    ValueId t = emit_cast(g, positive, DT_FLOAT64);

    if (has_value(counted))
        t = EMIT(g, Where, NULL, counted, t, emit_scalar(g, DT_FLOAT64, -1));
    x = EMIT(g, Unsqueeze, NULL, x, emit_ints(g, 1, &last));
    b->sum = EMIT(g, Concat, ATTRS(INT("axis", -1)), x, EMIT(g, Unsqueeze, NULL, t, emit_ints(g, 1, &last)));
}

static void emit_bins(LossBody *b, ValueId x, ValueId positive, ValueId counted, int64_t bins)
{
    Graph *g = b->g;
    const Shape table = SHAPE(2, bins);
    const ValueId one = emit_scalar(g, DT_FLOAT64, 1), half = emit_scalar(g, DT_FLOAT64, 0.5 * (double)bins),
                  most = emit_scalar(g, DT_FLOAT64, 1e30), last = emit_scalar(g, DT_INT64, (double)(bins - 1));
    ValueId ones, row = emit_cast(g, positive, DT_INT64), at;

    x = EMIT(g, Clip, NULL, x, emit_scalar(g, DT_FLOAT64, -1e30), most);
    x = EMIT(g, Div, NULL, x, EMIT(g, Add, NULL, one, EMIT(g, Abs, NULL, x)));
    at = emit_cast(g, EMIT(g, Mul, NULL, EMIT(g, Add, NULL, x, one), half), DT_INT64);
    at = EMIT(g, Clip, NULL, at, emit_scalar(g, DT_INT64, 0), last);
    row = EMIT(g, Mul, NULL, row, emit_scalar(g, DT_INT64, (double)bins));
    if (g->status)
        return;
    ones = has_value(counted) ? emit_cast(g, counted, DT_FLOAT64) : emit_full(g, DT_FLOAT64, value(g, at)->shape, 1);
    at = EMIT(g, GatherGrad, ATTRS(INT("axis", 0), INT("dim", 2 * bins)), ones, EMIT(g, Add, NULL, row, at));
    if (!g->status)
        b->sum = emit_cast(g, emit_reshape(g, at, &table), DT_INT64);
}

void emit_ranks(LossBody *b, const void *settings)
{
    const RankBins *s = settings;
    Graph *g = b->g;
    const int64_t classes = metric_classes(b, &(CountedClasses){ .ignored = s->ignored });
    ValueId counted, positive, x;

    if (!g->status && classes != 2)
        g->status = FAIL(E_INVALID,
                         "--metric: auc and average-precision need two classes or a binary loss, the scores "
                         "have %lld classes",
                         (long long)classes);
    if (g->status)
        return;
    counted = emit_counted(b, &s->ignored);
    positive = b->binary ? emit_positive(b) : EMIT(g, Equal, NULL, b->target, emit_scalar(g, DT_INT64, 1));
    x = emit_logits(b);
    if (b->exact)
        emit_list(b, x, positive, counted);
    else
        emit_bins(b, x, positive, counted, s->bins);
}

/* ---- curves ---- */

/* The sums over groups of equal scores, from the greatest score to the least. */
typedef struct {
    double positives, negatives; /* so far */
    double area;                 /* pairs of a positive and a negative target in the right order; equal ones: half */
    double precision;            /* over positives: the precision at their score */
    double open;                 /* pairs within a group */
    double over, under;          /* the most and the least that `precision` can be, whatever the orders in groups */
} Curve;

/* The sum over i = 1 ... p of (before + i) / (all + i): negatives come first, and each positive by itself.  For many
 * positives the integral of 1 / (all + x), which is greater than the sum, gives a value below it. */
static double worst_order(double before, double all, double p)
{
    enum { FEW = 256 };
    double sum = 0;

    if (p > FEW)
        return all > 0 ? p - (all - before) * log1p(p / all) : p;
    for (double i = 1; i <= p; i++)
        sum += (before + i) / (all + i);
    return sum;
}

static void curve_add(Curve *c, double p, double n)
{
    const double all = c->positives + c->negatives;

    c->area += n * (c->positives + p / 2);
    c->open += p * n;
    if (p > 0) {
        c->precision += p * (c->positives + p) / (all + p + n);
        c->over += p * (c->positives + p) / (all + p);
    }
    c->under += worst_order(c->positives, all + n, p);
    c->positives += p;
    c->negatives += n;
}

/* The greatest first; NaN last, so that there is an order. */
static int by_score(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return isnan(x) || isnan(y) ? (isnan(x) != 0) - (isnan(y) != 0) : x < y ? 1 : x > y ? -1 : 0;
}

/* Sorts the pairs of score and target in place. */
static Curve curve_of_list(const Tensor *list)
{
    const size_t n = (size_t)tensor_numel(list) / 2;
    double(*pair)[2] = list->data;
    Curve c = { 0 };

    qsort(pair, n, sizeof *pair, by_score);
    for (size_t i = 0; i < n;) {
        const double score = pair[i][0];
        double p = 0, all = 0;

        do {
            p += pair[i][1] == 1;
            all += pair[i][1] >= 0;
        } while (++i < n && pair[i][0] == score);
        curve_add(&c, p, all - p);
    }
    return c;
}

static Curve curve_of(const MetricTotals *t)
{
    const int64_t bins = t->sum->shape.dim[1];
    Curve c = { 0 };

    if (t->sum->dtype == DT_FLOAT64)
        return curve_of_list(t->sum);
    for (int64_t i = bins; i-- > 0;)
        curve_add(&c, (double)tensor_int(t->sum, bins + i), (double)tensor_int(t->sum, i));
    return c;
}

double rank_auc(const MetricTotals *t)
{
    const Curve c = curve_of(t);

    return c.positives > 0 && c.negatives > 0 ? c.area / (c.positives * c.negatives) : (double)NAN;
}

/* Each pair within a bin, which counts half, may be in the right order or in the wrong one. */
double rank_auc_bound(const MetricTotals *t)
{
    const Curve c = curve_of(t);

    return t->sum->dtype == DT_FLOAT64 ? 0 : c.open / 2 / (c.positives * c.negatives);
}

double rank_precision(const MetricTotals *t)
{
    const Curve c = curve_of(t);

    return c.positives > 0 ? c.precision / c.positives : (double)NAN;
}

double rank_precision_bound(const MetricTotals *t)
{
    const Curve c = curve_of(t);

    return t->sum->dtype == DT_FLOAT64 ? 0 : fmax(c.over - c.precision, c.precision - c.under) / c.positives;
}
