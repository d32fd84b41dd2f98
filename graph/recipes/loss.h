/* A loss: what of a batch training makes small.
 *
 * It gives a sum over the batch and what that sum weighs; the loss is their quotient (passes/train/criterion.c), so
 * that batches and parts of a batch add up exactly.  It emits operators that have gradients and placements, and needs
 * to know nothing of either. */
#ifndef DPX_LOSS_H
#define DPX_LOSS_H

#include "graph/ir/emit.h"
#include "graph/recipes/recipe.h"

/* What scores are compared with. */
typedef enum {
    TARGET_NONE,    /* nothing: an output of the model is the loss */
    TARGET_CLASSES, /* class numbers (int64) of the scores' shape without the axis of the classes; some losses take the
                       classes' probabilities too, of the scores' shape and type */
    TARGET_VALUES   /* values of the scores' shape and type */
} TargetKind;

typedef struct {
    Graph *g;
    ValueId y; /* the scores; of TARGET_CLASSES with the classes along axis 1 */
    ValueId target;
    bool soft;       /* the target has probabilities of the classes, along axis 1 */
    ValueId weights; /* TARGET_CLASSES: of each class; NO_VALUE: all 1 */
    /* To be set. */
    ValueId sum;    /* the sum, or values that are to be summed */
    ValueId weight; /* NO_VALUE: as much as the target has elements */
} LossBody;

typedef struct {
    Recipe recipe;
    TargetKind target;
    void (*emit)(LossBody *b, const void *settings);           /* failure is sticky in b->g */
    bool (*is_loss)(const void *settings, const char *output); /* TARGET_NONE: is the model's output the loss? */
    /* TARGET_CLASSES: are targets probabilities where no data tells it?  NULL: the loss takes none. */
    bool (*soft_labels)(const void *settings);
    const char *applies; /* the operator that it applies to the scores: behind another they are no logits; NULL: none */
    bool logs;           /* TARGET_NONE: losses are several, each by its mean, and the means of all outputs are told */
} LossDef;

#define DEFINE_LOSS(ident, ...) const LossDef loss_##ident = { __VA_ARGS__ }

/* ---- a class that does not count ---- */

typedef struct {
    bool given;
    int64_t index;
} IgnoredClass;

Status set_ignored_class(const Setting *s, void *to, const char *value) CHECKED;
#define IGNORE_INDEX(Struct, field)                                                                    \
    {                                                                                                  \
        .name = "ignore-index", .metavar = "N", .fallback = "",                                        \
        .help = "a class that counts neither in the loss nor in the metric", .set = set_ignored_class, \
        .at = offsetof(Struct, field), .min = -SETTING_COUNT_MAX, .max = SETTING_COUNT_MAX             \
    }
/* The attribute "ignore_index" of operators. */
static inline int64_t ignored_class(const IgnoredClass *c) { return c->given ? c->index : INT64_MIN; }

/* Negative log-likelihood of the classes, from log-probabilities.  Of soft targets t it is the mean over all samples of
 * -sum_c w[c] ((1-e) t[c] + e/C) logp[c], as PyTorch's cross_entropy computes it: weights are not divided by. */
void emit_nll(LossBody *b, ValueId logp, const IgnoredClass *ignored, double label_smoothing);
/* ElementLossSum of this kind. */
void emit_element_loss(LossBody *b, const char *kind);

#include "graph/recipes/losses.gen.h"

#endif
