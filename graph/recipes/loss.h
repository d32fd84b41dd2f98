/* The definition of a loss.
 *
 * A loss gives a sum over the batch and a weight; their quotient is the value (passes/train/criterion.c), so that
 * batches and parts of a batch add up exactly.  It emits operators, which have gradients and placements. */
#ifndef DPX_LOSS_H
#define DPX_LOSS_H

#include "graph/ir/emit.h"
#include "graph/recipes/recipe.h"

/* The kind of target that scores are compared with. */
typedef enum {
    TARGET_NONE,    /* no target: an output of the model is the loss */
    TARGET_CLASSES, /* class numbers (int64), with the scores' shape without the axis of classes; some losses also take
                       probabilities of classes, with the scores' shape and type */
    TARGET_VALUES   /* values with the scores' shape and type */
} TargetKind;

/* The scores of a binary loss, which has one for each target: the target is 1, 0 or a probability between them. */
typedef enum { BINARY_NONE, BINARY_LOGITS, BINARY_PROBABILITIES } BinaryScores;

typedef struct {
    Graph *g;
    ValueId y; /* the scores; for TARGET_CLASSES, axis 1 is the classes */
    ValueId target;
    int batch; /* for TARGET_VALUES, the axis of y that has the samples */
    bool soft; /* the target has probabilities of classes, along axis 1 */
    BinaryScores binary;
    bool exact;      /* metrics: an evaluation that keeps scores, where the metric needs them all (MetricDef.lists) */
    ValueId weights; /* TARGET_CLASSES: a weight for each class; NO_VALUE: all 1 */
    /* To be set by the loss. */
    ValueId sum;    /* the sum, or values to be summed */
    ValueId weight; /* NO_VALUE: the number of elements of the target */
} LossBody;

typedef struct {
    Recipe recipe;
    TargetKind target;
    void (*emit)(LossBody *b, const void *settings);           /* failure is sticky in b->g */
    bool (*is_loss)(const void *settings, const char *output); /* TARGET_NONE: is this output of the model the loss? */
    /* TARGET_CLASSES: are targets probabilities if no data show it?  NULL: the loss takes no probabilities. */
    bool (*soft_labels)(const void *settings);
    const char *applies; /* the operator that it applies to logits: a model that ends with it gives none; NULL: none */
    BinaryScores binary; /* TARGET_VALUES: what the loss takes, if it is a binary loss */
    bool logs; /* TARGET_NONE: several outputs are losses, each by its mean, and the means of all outputs are logged */
} LossDef;

/* Reduces b->sum, and b->weight or in its absence the number of targets, to one number each; of a loss or a metric. */
void loss_finish_sum(ValueId *sum, ValueId *weight, const LossBody *b);

#define DEFINE_LOSS(ident, ...) const LossDef loss_##ident = { __VA_ARGS__ }

/* ---- a class that does not count ---- */

typedef struct {
    bool given;
    int64_t index;
} IgnoredClass;

/* Settings of recipes with no other flag. */
typedef struct {
    IgnoredClass ignored;
} IgnoreIndex;

Status set_ignored_class(const Setting *s, void *to, const char *value) CHECKED;
#define IGNORE_INDEX(Struct, field)                                                                    \
    {                                                                                                  \
        .name = "ignore-index", .metavar = "N", .fallback = "",                                        \
        .help = "a class that counts neither in the loss nor in the metric", .set = set_ignored_class, \
        .at = offsetof(Struct, field), .min = -SETTING_COUNT_MAX, .max = SETTING_COUNT_MAX             \
    }
/* The value of operators' attribute "ignore_index". */
static inline int64_t ignored_class(const IgnoredClass *c) { return c->given ? c->index : INT64_MIN; }

/* Emits the negative log-likelihood of the classes, from log-probabilities.  For soft targets t it is the mean over all
 * samples of -sum_c w[c] ((1-e) t[c] + e/C) logp[c], as in PyTorch's cross_entropy: it is not divided by the weights.
 */
void emit_nll(LossBody *b, ValueId logp, const IgnoredClass *ignored, double label_smoothing);
/* Emits an ElementLossSum of this kind. */
void emit_element_loss(LossBody *b, const char *kind);

#include "graph/recipes/losses.gen.h"

#endif
