/* cross-entropy: minus the log-probability of the right class, from logits; for targets that are probabilities, the
 * mean over classes weighted by them. */
#include "graph/ops/softmax.gen.h"
#include "graph/recipes/loss.h"

typedef struct {
    IgnoredClass ignored;
    double label_smoothing;
    bool soft_labels;
} CrossEntropy;

static void cross_entropy_emit_loss(LossBody *b, const void *settings)
{
    const CrossEntropy *s = settings;

    emit_nll(b, EMIT(b->g, LogSoftmax, ATTRS(INT("axis", 1)), b->y), &s->ignored, s->label_smoothing);
}

static bool takes_soft_labels(const void *settings) { return ((const CrossEntropy *)settings)->soft_labels; }

static const Setting flags[] = {
    IGNORE_INDEX(CrossEntropy, ignored),
    { .name = "label-smoothing",
      .metavar = "X",
      .fallback = "0",
      .help = "share of the target spread evenly over all classes",
      SETTING_OF(CrossEntropy, label_smoothing),
      .min = 0,
      .max = 1 },
    { .name = "soft-labels",
      .fallback = "false",
      .help = "targets are class probabilities of the logits' shape [by the targets' shape]",
      SETTING_OF(CrossEntropy, soft_labels) },
    { .name = NULL },
};

DEFINE_LOSS(cross_entropy,
            .recipe = { .name = "cross-entropy",
                        .help = "logits against class numbers or probabilities",
                        .flags = flags,
                        RECIPE_SETTINGS(CrossEntropy) },
            .target = TARGET_CLASSES, .soft_labels = takes_soft_labels, .applies = "Softmax",
            .emit = cross_entropy_emit_loss);
