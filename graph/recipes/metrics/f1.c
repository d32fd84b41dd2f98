/* f1: the harmonic mean of precision and recall, for each class or for their sums; averaged over classes.
 *
 * 0 / 0 is 0, as with zero_division=0 in scikit-learn. */
#include "graph/recipes/metric.h"

static double f1_metric_value(const MetricTotals *t) { return class_average(t, class_f1); }

DEFINE_METRIC(f1,
              .recipe = { .name = "f1",
                          .form = "f1[:AVERAGE]",
                          .help = "the harmonic mean of precision and recall; AVERAGE as for precision",
                          .args = class_average_args,
                          .flags = counted_classes_flags,
                          RECIPE_SETTINGS(ClassAverage) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .emit = emit_class_average,
              .value = f1_metric_value);
