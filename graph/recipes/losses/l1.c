/* l1: the mean of |y - t|. */
#include "graph/recipes/loss.h"

static void l1_emit_loss(LossBody *b, const void *settings)
{
    (void)settings;
    emit_element_loss(b, "l1");
}

DEFINE_LOSS(l1, .recipe = { .name = "l1", .help = "mean absolute error" }, .target = TARGET_VALUES,
            .emit = l1_emit_loss);
