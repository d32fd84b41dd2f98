/* confusion-matrix: the number of targets of the row's class whose largest score is that of the column's class. */
#include "graph/recipes/metric.h"

static void confusion_matrix_emit_metric(LossBody *b, const void *settings) { emit_confusion(b, settings); }

static const Setting flags[] = { IGNORE_INDEX(CountedClasses, ignored),
                                 THRESHOLD(CountedClasses, threshold),
                                 { .name = NULL } };

DEFINE_METRIC(confusion_matrix,
              .recipe = { .name = "confusion-matrix",
                          .help = "how many targets of a class (row) have their largest logit in which (column)",
                          .flags = flags,
                          RECIPE_SETTINGS(CountedClasses) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .emit = confusion_matrix_emit_metric);
