/* recall: the share of a class's targets that is found; averaged over classes.
 *
 * 0 / 0 is 0, as with zero_division=0 in scikit-learn. */
#include "graph/recipes/metric.h"

static double score(const ClassCounts *n) { return n->targets > 0 ? n->hits / n->targets : 0; }

static double recall_metric_value(const Tensor *sum, double weight, const void *settings)
{
    (void)weight;
    return class_average(sum, settings, score);
}

static const Setting args[] = { CLASS_AVERAGE_ARG, { .name = NULL } };
static const Setting flags[] = { IGNORE_INDEX(ClassAverage, ignored), { .name = NULL } };

DEFINE_METRIC(recall,
              .recipe = { .name = "recall",
                          .form = "recall[:AVERAGE]",
                          .help = "which share of the targets of a class is found; AVERAGE as of precision",
                          .args = args,
                          .flags = flags,
                          RECIPE_SETTINGS(ClassAverage) },
              .target = TARGET_CLASSES, .table = true, .emit = emit_class_average, .value = recall_metric_value);
