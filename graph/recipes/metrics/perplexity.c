/* perplexity: e to the mean over targets of minus the log-probability of the right class, each target with weight 1.
 *
 * It takes logits.  Log-probabilities are logits, too, because log-softmax does not change them. */
#include <math.h>

#include "graph/ops/softmax.gen.h"
#include "graph/recipes/metric.h"

static void perplexity_emit_metric(LossBody *b, const void *settings)
{
    const IgnoreIndex *s = settings;

    emit_nll(b, EMIT(b->g, LogSoftmax, ATTRS(INT("axis", 1)), b->y), &s->ignored, 0);
}

static double perplexity_metric_value(const MetricTotals *t) { return exp(tensor_float(t->sum, 0) / t->weight); }

static const Setting flags[] = { IGNORE_INDEX(IgnoreIndex, ignored), { .name = NULL } };

DEFINE_METRIC(perplexity,
              .recipe = { .name = "perplexity",
                          .help = "e to the mean of minus the log-probability of the right class",
                          .flags = flags,
                          RECIPE_SETTINGS(IgnoreIndex) },
              .target = TARGET_CLASSES, .soft = true, .falls = true, .emit = perplexity_emit_metric,
              .value = perplexity_metric_value);
