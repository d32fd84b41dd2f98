/* accuracy: the share of targets whose class has the largest score. */
#include "graph/ops/metric.gen.h"
#include "graph/recipes/metric.h"

static void accuracy_emit_metric(LossBody *b, const void *settings)
{
    const IgnoreIndex *s = settings;
    ValueId counts[2];

    EMIT_MULTI(b->g, AccuracyCount, ATTRS(INT("ignore_index", ignored_class(&s->ignored))), 2, counts, b->y, b->target);
    b->sum = counts[0];
    b->weight = counts[1];
}

static const Setting flags[] = { IGNORE_INDEX(IgnoreIndex, ignored), { .name = NULL } };

DEFINE_METRIC(accuracy,
              .recipe = { .name = "accuracy",
                          .help = "the share of targets that the largest logit hits",
                          .flags = flags,
                          RECIPE_SETTINGS(IgnoreIndex) },
              .target = TARGET_CLASSES, .emit = accuracy_emit_metric);
