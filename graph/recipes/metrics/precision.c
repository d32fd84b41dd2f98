/* precision: the share of a class's predictions that is right; averaged over classes.
 *
 * 0 / 0 is 0, as with zero_division=0 in scikit-learn. */
#include "graph/recipes/metric.h"

static double precision_metric_value(const MetricTotals *t) { return class_average(t, class_precision); }

static const Setting args[] = { CLASS_AVERAGE_ARG, { .name = NULL } };
static const Setting flags[] = { IGNORE_INDEX(ClassAverage, counted.ignored),
                                 THRESHOLD(ClassAverage, counted.threshold),
                                 { .name = NULL } };

DEFINE_METRIC(precision,
              .recipe = { .name = "precision",
                          .form = "precision[:AVERAGE]",
                          .help = "which share of the predictions of a class is right; AVERAGE macro [default; of a "
                                  "binary loss 1], micro, "
                                  "weighted or one class",
                          .args = args,
                          .flags = flags,
                          RECIPE_SETTINGS(ClassAverage) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .emit = emit_class_average,
              .value = precision_metric_value);
