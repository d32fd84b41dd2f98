/* precision: the share of a class's predictions that is right; averaged over classes.
 *
 * 0 / 0 is 0, as with zero_division=0 in scikit-learn. */
#include "graph/recipes/metric.h"

static double precision_metric_value(const MetricTotals *t) { return class_average(t, class_precision); }

DEFINE_METRIC(precision,
              .recipe = { .name = "precision",
                          .form = "precision[:AVERAGE]",
                          .help = "the share of a class's predictions that are right; AVERAGE macro [default; of a "
                                  "binary loss: class 1], micro, weighted or one class",
                          .args = class_average_args,
                          .flags = counted_classes_flags,
                          RECIPE_SETTINGS(ClassAverage) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .emit = emit_class_average,
              .value = precision_metric_value);
