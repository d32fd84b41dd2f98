/* confusion-matrix: the number of targets of the row's class whose largest score is that of the column's class. */
#include "graph/recipes/metric.h"

static void confusion_matrix_emit_metric(LossBody *b, const void *settings)
{
    emit_confusion(b, &((const IgnoreIndex *)settings)->ignored);
}

static const Setting flags[] = { IGNORE_INDEX(IgnoreIndex, ignored), { .name = NULL } };

DEFINE_METRIC(confusion_matrix,
              .recipe = { .name = "confusion-matrix",
                          .help = "how many targets of a class (row) have their largest logit in which (column)",
                          .flags = flags,
                          RECIPE_SETTINGS(IgnoreIndex) },
              .target = TARGET_CLASSES, .table = true, .emit = confusion_matrix_emit_metric);
