/* rmse: the root of the mean of (y - t)^2 over all elements. */
#include <math.h>

#include "graph/recipes/metric.h"

static void rmse_emit_metric(LossBody *b, const void *settings)
{
    (void)settings;
    emit_element_loss(b, "mse");
}

static double rmse_metric_value(const MetricTotals *t) { return sqrt(tensor_float(t->sum, 0) / t->weight); }

DEFINE_METRIC(rmse, .recipe = { .name = "rmse", .help = "root of the mean squared error" }, .target = TARGET_VALUES,
              .falls = true, .emit = rmse_emit_metric, .value = rmse_metric_value);
