/* nll: minus the log-probability of the right class, from log-probabilities. */
#include "graph/recipes/loss.h"

typedef struct {
    IgnoredClass ignored;
} Nll;

static void emit_loss(LossBody *b, const void *settings) { emit_nll(b, b->y, &((const Nll *)settings)->ignored, 0); }

static const Setting flags[] = { IGNORE_INDEX(Nll, ignored), { .name = NULL } };

DEFINE_LOSS(nll,
            .recipe = { .name = "nll",
                        .help = "log-probabilities against class numbers",
                        .flags = flags,
                        RECIPE_SETTINGS(Nll) },
            .target = TARGET_CLASSES, .emit = emit_loss);
