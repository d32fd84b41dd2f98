/* bce: the mean of -(t log y + (1 - t) log(1 - y)). */
#include "graph/recipes/loss.h"

static void bce_emit_loss(LossBody *b, const void *settings)
{
    (void)settings;
    emit_element_loss(b, "bce");
}

DEFINE_LOSS(bce, .recipe = { .name = "bce", .help = "binary cross-entropy of probabilities" }, .target = TARGET_VALUES,
            .binary = BINARY_PROBABILITIES, .emit = bce_emit_loss);
