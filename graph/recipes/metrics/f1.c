/* f1: the harmonic mean of precision and recall, for each class or for their sums; averaged over classes.
 *
 * 0 / 0 is 0, as with zero_division=0 in scikit-learn. */
#include "graph/recipes/metric.h"

static double score(const ClassCounts *n)
{
    return n->targets + n->predictions > 0 ? 2 * n->hits / (n->targets + n->predictions) : 0;
}

static double f1_metric_value(const Tensor *sum, double weight, const void *settings)
{
    (void)weight;
    return class_average(sum, settings, score);
}

static const Setting args[] = { CLASS_AVERAGE_ARG, { .name = NULL } };
static const Setting flags[] = { IGNORE_INDEX(ClassAverage, ignored), { .name = NULL } };

DEFINE_METRIC(f1,
              .recipe = { .name = "f1",
                          .form = "f1[:AVERAGE]",
                          .help = "the harmonic mean of precision and recall; AVERAGE as of precision",
                          .args = args,
                          .flags = flags,
                          RECIPE_SETTINGS(ClassAverage) },
              .target = TARGET_CLASSES, .table = true, .emit = emit_class_average, .value = f1_metric_value);
