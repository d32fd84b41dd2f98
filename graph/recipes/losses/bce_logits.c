/* bce-logits: binary cross-entropy of y = sigmoid(x), computed from x so that no logarithm overflows. */
#include "graph/recipes/loss.h"

static void bce_logits_emit_loss(LossBody *b, const void *settings)
{
    (void)settings;
    emit_element_loss(b, "bce-logits");
}

DEFINE_LOSS(bce_logits, .recipe = { .name = "bce-logits", .help = "binary cross-entropy of logits" },
            .target = TARGET_VALUES, .binary = BINARY_LOGITS, .applies = "Sigmoid", .emit = bce_logits_emit_loss);
