/* mean-iou: intersection over union for each class, hits / (targets + predictions - hits); the mean over classes that
 * targets or predictions have. */
#include "graph/recipes/metric.h"

static double iou(const ClassCounts *n) { return n->hits / (n->targets + n->predictions - n->hits); }

static double mean_iou_metric_value(const MetricTotals *t)
{
    MetricTotals over = *t;

    over.binary = false; /* both classes count */
    return class_average(&over, iou);
}

DEFINE_METRIC(mean_iou,
              .recipe = { .name = "mean-iou",
                          .help = "intersection over union of targets and predictions, the mean over classes",
                          .flags = counted_classes_flags,
                          RECIPE_SETTINGS(ClassAverage) },
              .target = TARGET_CLASSES, .binary = true, .table = true, .emit = emit_confusion,
              .value = mean_iou_metric_value);
