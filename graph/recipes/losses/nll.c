/* nll: minus the log-probability of the right class, from log-probabilities. */
#include "graph/recipes/loss.h"

static void emit_loss(LossBody *b, const void *settings)
{
    emit_nll(b, b->y, &((const IgnoreIndex *)settings)->ignored, 0);
}

static const Setting flags[] = { IGNORE_INDEX(IgnoreIndex, ignored), { .name = NULL } };

DEFINE_LOSS(nll,
            .recipe = { .name = "nll",
                        .help = "log-probabilities against class numbers",
                        .flags = flags,
                        RECIPE_SETTINGS(IgnoreIndex) },
            .target = TARGET_CLASSES, .emit = emit_loss);
