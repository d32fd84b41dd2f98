/* accuracy: the share of targets whose class has the largest score; of a binary loss, of those predicted rightly. */
#include "graph/ops/compare.gen.h"
#include "graph/ops/metric.gen.h"
#include "graph/recipes/metric.h"

static void accuracy_emit_metric(LossBody *b, const void *settings)
{
    const CountedClasses *s = settings;
    ValueId counts[2];

    (void)metric_classes(b, s);
    if (b->binary) {
        const ValueId positive = emit_positive(b);

        b->sum = emit_cast(b->g, EMIT(b->g, Equal, NULL, positive, emit_predicted(b, &s->threshold)), DT_INT64);
        return;
    }
    EMIT_MULTI(b->g, AccuracyCount, ATTRS(INT("ignore_index", ignored_class(&s->ignored))), 2, counts, b->y, b->target);
    b->sum = counts[0];
    b->weight = counts[1];
}

DEFINE_METRIC(accuracy,
              .recipe = { .name = "accuracy",
                          .help = "the share of targets that the largest logit hits, of a binary loss a probability "
                                  "above --threshold",
                          .flags = counted_classes_flags,
                          RECIPE_SETTINGS(CountedClasses) },
              .target = TARGET_CLASSES, .binary = true, .emit = accuracy_emit_metric);
