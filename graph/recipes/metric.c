/* Functions that metrics of classes share: all follow from the confusion matrix, whose counts add up. */
#include "graph/recipes/metric.h"

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

/* Each target gets the number of its pair of classes, target * classes + prediction; ones are added up by that number,
 * in float64, which is exact up to 2^53.  The loss reports labels that are no class; here they are clipped to the
 * table. */
void emit_confusion(LossBody *b, const IgnoredClass *ignored)
{
    Graph *g = b->g;
    const int64_t classes = value(g, b->y)->shape->dim[1];
    const Shape table = SHAPE(classes, classes);
    ValueId counted = emit_counted(b, ignored), last = emit_scalar(g, DT_INT64, (double)(classes - 1));
    ValueId t = EMIT(g, Clip, NULL, b->target, emit_scalar(g, DT_INT64, 0), last);
    ValueId row = EMIT(g, Mul, NULL, t, emit_scalar(g, DT_INT64, (double)classes));
    ValueId p = EMIT(g, ArgMax, ATTRS(INT("axis", 1), INT("keepdims", 0)), b->y), ones, pairs;

    if (g->status)
        return;
    ones = has_value(counted) ? emit_cast(g, counted, DT_FLOAT64) : emit_full(g, DT_FLOAT64, value(g, t)->shape, 1);
    pairs = EMIT(g, GatherGrad, ATTRS(INT("axis", 0), INT("dim", classes * classes)), ones, EMIT(g, Add, NULL, row, p));
    if (!g->status)
        b->sum = emit_cast(g, emit_reshape(g, pairs, &table), DT_INT64);
}

static ClassCounts class_counts(const Tensor *confusion, int64_t c)
{
    const int64_t classes = confusion->shape.dim[0];
    ClassCounts n = { .hits = (double)tensor_int(confusion, c * classes + c) };

    for (int64_t i = 0; i < classes; i++) {
        n.targets += (double)tensor_int(confusion, c * classes + i);
        n.predictions += (double)tensor_int(confusion, i * classes + c);
    }
    return n;
}

/* ---- averages over classes ---- */

Status set_class_average(const Setting *s, void *to, const char *value)
{
    static const char *const words[] = { "macro", "micro", "weighted" };
    ClassAverage *a = to;

    for (int i = 0; i < 3; i++)
        if (!strcmp(value, words[i])) {
            a->how = i;
            return ST_OK;
        }
    if (*value < '0' || *value > '9')
        return setting_bad(s, value, "macro, micro, weighted or the number of a class");
    TRY(setting_read_int(&a->class, s, value));
    a->how = CLASS_ONE;
    return ST_OK;
}

void emit_class_average(LossBody *b, const void *settings)
{
    const ClassAverage *a = settings;
    const int64_t classes = value(b->g, b->y)->shape->dim[1];

    if (a->how == CLASS_ONE && a->class >= classes && !b->g->status)
        b->g->status = FAIL(E_INVALID, "--metric: there is no class %lld, the scores have %lld classes",
                            (long long)a->class, (long long)classes);
    else
        emit_confusion(b, &a->ignored);
}

double class_average(const Tensor *confusion, const void *settings, double (*score)(const ClassCounts *))
{
    const ClassAverage *a = settings;
    ClassCounts all = { 0 }, n;
    double sum = 0, weight = 0;

    if (a->how == CLASS_ONE) {
        n = class_counts(confusion, a->class);
        return score(&n);
    }
    for (int64_t c = 0; c < confusion->shape.dim[0]; c++) {
        double w;

        n = class_counts(confusion, c);
        if ((a->ignored.given && c == a->ignored.index) || (n.targets == 0 && n.predictions == 0))
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
