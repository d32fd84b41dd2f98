/* Functions that metrics of classes share: all follow from the confusion matrix, whose counts add up. */
#include "graph/recipes/metric.h"

#include <math.h>
#include <string.h>

#include "graph/ops/arg.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

ValueId emit_counted(LossBody *b, const IgnoredClass *ignored)
{
    ValueId none;

    if (!ignored->given)
        return NO_VALUE;
    none = emit_scalar(b->g, DT_INT64, (double)ignored->index);
    return EMIT(b->g, Not, NULL, EMIT(b->g, Equal, NULL, b->target, none));
}

/* ---- binary losses ---- */

static Status set_threshold(const Setting *s, void *to, const char *value)
{
    Threshold *t = (Threshold *)(void *)((char *)to + s->at);
    double at;

    TRY(setting_read_real(&at, s, value));
    if (at == 0 || at == 1)
        return setting_bad(s, value, "a probability between 0 and 1");
    *t = (Threshold){ true, at };
    return ST_OK;
}

const Setting counted_classes_flags[] = {
    IGNORE_INDEX(CountedClasses, ignored),
    { .name = "threshold",
      .metavar = "P",
      .fallback = "",
      .help = "metrics of binary losses: probability above which a prediction is positive [0.5]",
      .set = set_threshold,
      .at = offsetof(CountedClasses, threshold),
      .max = 1 },
    { .name = NULL },
};

ValueId emit_positive(LossBody *b)
{
    return EMIT(b->g, Greater, NULL, b->target, emit_scalar(b->g, value(b->g, b->target)->dtype, 0.5));
}

/* sigmoid(x) > p where x > log(p / (1 - p)). */
ValueId emit_predicted(LossBody *b, const Threshold *threshold)
{
    const double p = threshold->given ? threshold->at : 0.5, at = b->binary == BINARY_LOGITS ? log(p / (1 - p)) : p;

    return EMIT(b->g, Greater, NULL, b->y, emit_scalar(b->g, value(b->g, b->y)->dtype, at));
}

int64_t metric_classes(LossBody *b, const CountedClasses *settings)
{
    if (b->g->status)
        return 0;
    if (b->binary && settings->ignored.given)
        b->g->status =
            FAIL(E_INVALID, "--ignore-index needs a loss of class numbers: a binary loss counts all targets");
    else if (!b->binary && settings->threshold.given)
        b->g->status =
            FAIL(E_INVALID, "--threshold needs a binary loss: other losses predict the class of the largest score");
    return b->binary ? 2 : value(b->g, b->y)->shape->dim[1];
}

/* ---- the confusion matrix ---- */

/* The row of each target's class in the table, and the class that is predicted.  The loss reports labels that are no
 * class; here they are clipped to the table. */
static void emit_classes(ValueId *row, ValueId *predicted, LossBody *b, const CountedClasses *s, int64_t classes)
{
    Graph *g = b->g;
    ValueId last = b->binary ? NO_VALUE : emit_scalar(g, DT_INT64, (double)(classes - 1)), t;

    if (b->binary)
        t = emit_cast(g, emit_positive(b), DT_INT64);
    else
        t = EMIT(g, Clip, NULL, b->target, emit_scalar(g, DT_INT64, 0), last);
    *row = EMIT(g, Mul, NULL, t, emit_scalar(g, DT_INT64, (double)classes));
    if (b->binary)
        *predicted = emit_cast(g, emit_predicted(b, &s->threshold), DT_INT64);
    else
        *predicted = EMIT(g, ArgMax, ATTRS(INT("axis", 1), INT("keepdims", 0)), b->y);
}

/* Each target gets the number of its pair of classes, target * classes + prediction; ones are added up by that number,
 * in float64, which is exact up to 2^53. */
void emit_confusion(LossBody *b, const void *settings)
{
    const CountedClasses *s = settings;
    Graph *g = b->g;
    const int64_t classes = metric_classes(b, s);
    const Shape table = SHAPE(classes, classes);
    ValueId counted, p, row, ones, pairs;

    if (g->status)
        return;
    counted = emit_counted(b, &s->ignored);
    emit_classes(&row, &p, b, s, classes);
    if (g->status)
        return;
    ones = has_value(counted) ? emit_cast(g, counted, DT_FLOAT64) : emit_full(g, DT_FLOAT64, value(g, row)->shape, 1);
    pairs = EMIT(g, GatherGrad, ATTRS(INT("axis", 0), INT("dim", classes * classes)), ones, EMIT(g, Add, NULL, row, p));
    if (!g->status)
        b->sum = emit_cast(g, emit_reshape(g, pairs, &table), DT_INT64);
}

ClassCounts class_counts(const Tensor *confusion, int64_t c)
{
    const int64_t classes = confusion->shape.dim[0];
    ClassCounts n = { .hits = (double)tensor_int(confusion, c * classes + c) };

    for (int64_t i = 0; i < classes; i++) {
        n.targets += (double)tensor_int(confusion, c * classes + i);
        n.predictions += (double)tensor_int(confusion, i * classes + c);
    }
    return n;
}

double class_precision(const ClassCounts *n) { return n->predictions > 0 ? n->hits / n->predictions : 0; }

double class_recall(const ClassCounts *n) { return n->targets > 0 ? n->hits / n->targets : 0; }

double class_f1(const ClassCounts *n)
{
    return n->targets + n->predictions > 0 ? 2 * n->hits / (n->targets + n->predictions) : 0;
}

/* ---- averages over classes ---- */

static Status set_class_average(const Setting *s, void *to, const char *value)
{
    static const char *const words[] = { "macro", "micro", "weighted" };
    ClassAverage *a = to;

    for (int i = 0; i < 3; i++)
        if (!strcmp(value, words[i])) {
            a->how = CLASS_MACRO + i;
            return ST_OK;
        }
    if (*value < '0' || *value > '9')
        return setting_bad(s, value, "macro, micro, weighted or the number of a class");
    TRY(setting_read_int(&a->class, s, value));
    a->how = CLASS_ONE;
    return ST_OK;
}

const Setting class_average_args[] = {
    { .name = "average",
      .metavar = "AVERAGE",
      .fallback = "",
      .help = "macro, micro, weighted by targets, or the number of the one class to look at",
      .set = set_class_average,
      .at = offsetof(ClassAverage, how),
      .max = SETTING_COUNT_MAX },
    { .name = NULL },
};
_Static_assert(offsetof(ClassAverage, counted) == 0, "counted_classes_flags set its fields");

void emit_class_average(LossBody *b, const void *settings)
{
    const ClassAverage *a = settings;
    const int64_t classes = metric_classes(b, &a->counted);

    if (a->how == CLASS_ONE && a->class >= classes && !b->g->status)
        b->g->status = FAIL(E_INVALID, "--metric: there is no class %lld, the scores have %lld classes",
                            (long long)a->class, (long long)classes);
    else
        emit_confusion(b, a);
}

double class_average(const MetricTotals *t, double (*score)(const ClassCounts *))
{
    const ClassAverage *a = t->settings;
    const IgnoredClass *ignored = &a->counted.ignored;
    ClassCounts all = { 0 }, n;
    double sum = 0, weight = 0;

    if (a->how == CLASS_ONE || (a->how == CLASS_UNSET && t->binary)) {
        n = class_counts(t->sum, a->how == CLASS_ONE ? a->class : 1);
        return score(&n);
    }
    for (int64_t c = 0; c < t->sum->shape.dim[0]; c++) {
        double w;

        n = class_counts(t->sum, c);
        if ((ignored->given && c == ignored->index) || (n.targets == 0 && n.predictions == 0))
            continue;
        all.hits += n.hits;
        all.targets += n.targets;
        all.predictions += n.predictions;
        w = a->how == CLASS_WEIGHTED ? n.targets : 1;
        sum += w * score(&n);
        weight += w;
    }
    return a->how == CLASS_MICRO ? score(&all) : sum / weight;
}
