/* mse: the mean of (y - t)^2. */
#include "graph/recipes/loss.h"

static void mse_emit_loss(LossBody *b, const void *settings)
{
    (void)settings;
    emit_element_loss(b, "mse");
}

DEFINE_LOSS(mse, .recipe = { .name = "mse", .help = "mean squared error" }, .target = TARGET_VALUES,
            .emit = mse_emit_loss);
