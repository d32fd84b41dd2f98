/* mae: the mean of |y - t|. */
#include "graph/recipes/metric.h"

static void mae_emit_metric(LossBody *b, const void *settings)
{
    (void)settings;
    emit_element_loss(b, "l1");
}

DEFINE_METRIC(mae, .recipe = { .name = "mae", .help = "mean absolute error" }, .target = TARGET_VALUES, .falls = true,
              .emit = mae_emit_metric);
