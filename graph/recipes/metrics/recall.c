/* recall: the share of a class's targets that is found; averaged over classes.
 *
 * 0 / 0 is 0, as with zero_division=0 in scikit-learn. */
#include "graph/recipes/metric.h"

static double recall_metric_value(const MetricTotals *t) { return class_average(t, class_recall); }

static const Setting args[] = { CLASS_AVERAGE_ARG, { .name = NULL } };
static const Setting flags[] = { IGNORE_INDEX(ClassAverage, counted.ignored),
                                 THRESHOLD(ClassAverage, counted.threshold),
                                 { .name = NULL } };

DEFINE_METRIC(recall,
              .recipe = { .name = "recall",
                          .form = "recall[:AVERAGE]",
                          .help = "which share of the targets of a class is found; AVERAGE as of precision",
                          .args = args,
                          .flags = flags,
                          RECIPE_SETTINGS(ClassAverage) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .emit = emit_class_average,
              .value = recall_metric_value);
