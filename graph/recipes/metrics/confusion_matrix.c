/* confusion-matrix: the number of targets of the row's class whose largest score is that of the column's class. */
#include "graph/recipes/metric.h"

DEFINE_METRIC(confusion_matrix,
              .recipe = { .name = "confusion-matrix",
                          .help = "how many targets of a class (row) have their largest logit in which (column)",
                          .flags = counted_classes_flags,
                          RECIPE_SETTINGS(CountedClasses) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .emit = emit_confusion);
