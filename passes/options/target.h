/* Options of the criterion: the logits and the target that a loss compares, classes, and what a mean is over. */
#ifndef DPX_PASSES_OPTIONS_TARGET_H
#define DPX_PASSES_OPTIONS_TARGET_H

#include "graph/tensor/tensor.h"

typedef struct BuildOptions BuildOptions;

/* The parts that the mean of the parts' losses is over: all, or those that have samples. */
typedef enum { MEAN_OVER_ALL, MEAN_OVER_FILLED } MeanOver;

typedef struct TargetOptions {
    const char *logits;        /* the graph output that the loss reads; NULL: the first */
    const char *target;        /* name of the target input that is created; NULL: "target" */
    const Shape *target_shape; /* shape of the targets of a batch; NULL: unknown */
    int class_axis; /* axis of the scores, from the end when negative; 0: found (passes/train/class_axis.h) */
    struct ClassAxis *class_axis_found; /* receives the axis that was found or assumed; may be NULL */
    const Tensor *class_weights;        /* [C] float, or NULL */
    const char
        *loss_weight;   /* TARGET_NONE: the graph output that weighs the loss in a group of batches; NULL: samples */
    bool loss_is_sum;   /* TARGET_NONE: the loss of a group of batches is the sum of theirs */
    bool mean_of_means; /* a training step takes the mean of the replicas' means, not of the samples */
    MeanOver mean_over;
} TargetOptions;

/* The name of the target input: `target`, or "target". */
const char *target_name(const BuildOptions *opt);

const TargetOptions *target_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
