/* recall: the share of a class's targets that is found; averaged over classes.
 *
 * 0 / 0 is 0, as with zero_division=0 in scikit-learn. */
#include "graph/recipes/metric.h"

static double recall_metric_value(const MetricTotals *t) { return class_average(t, class_recall); }

DEFINE_METRIC(recall,
              .recipe = { .name = "recall",
                          .form = "recall[:AVERAGE]",
                          .help = "the share of a class's targets that are found; AVERAGE as for precision",
                          .args = class_average_args,
                          .flags = counted_classes_flags,
                          RECIPE_SETTINGS(ClassAverage) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .emit = emit_class_average,
              .value = recall_metric_value);
