/* cross-entropy: minus the log-probability of the right class, from logits. */
#include "graph/recipes/loss.h"

typedef struct {
    IgnoredClass ignored;
    double label_smoothing;
} CrossEntropy;

static void emit_loss(LossBody *b, const void *settings)
{
    const CrossEntropy *s = settings;

    emit_nll(b, EMIT(b->g, LogSoftmax, ATTRS(INT("axis", 1)), b->y), &s->ignored, s->label_smoothing);
}

static const Setting flags[] = {
    IGNORE_INDEX(CrossEntropy, ignored),
    { .name = "label-smoothing",
      .metavar = "X",
      .fallback = "0",
      .help = "share of the target spread evenly over all classes",
      SETTING_OF(CrossEntropy, label_smoothing),
      .min = 0,
      .max = 1 },
    { .name = NULL },
};

DEFINE_LOSS(cross_entropy,
            .recipe = { .name = "cross-entropy",
                        .help = "logits against class numbers",
                        .flags = flags,
                        RECIPE_SETTINGS(CrossEntropy) },
            .target = TARGET_CLASSES, .applies = "Softmax", .emit = emit_loss);
