/* Options of element types: what the model is converted to, the types of products, loss scaling. */
#ifndef DPX_PASSES_OPTIONS_TYPES_H
#define DPX_PASSES_OPTIONS_TYPES_H

#include "graph/tensor/dtype.h"

typedef struct BuildOptions BuildOptions;

typedef enum { SCALE_NONE, SCALE_FIXED, SCALE_DYNAMIC } LossScaling;

/* A dynamic loss scale begins with `first`.  It is multiplied by `growth` after `interval` updates in a row, and by
 * `backoff` where a step is skipped. */
typedef struct {
    double first, growth, backoff;
    int64_t interval; /* 0: the usual rule (loss_scale_rule) */
} LossScaleRule;

typedef struct TypeOptions {
    DType dtype;              /* DT_FLOAT32 / DT_FLOAT64: convert the model's floats; DT_NONE: leave them */
    DType precision;          /* DT_FLOAT16 / DT_BFLOAT16: type of products and their surroundings; DT_NONE: as dtype */
    LossScaling loss_scaling; /* scaling of the loss that is differentiated (passes/train/scale_loss.c) */
    double loss_scale;        /* SCALE_FIXED: the factor */
    LossScaleRule scale_rule; /* SCALE_DYNAMIC */
} TypeOptions;

const TypeOptions *type_options(const BuildOptions *opt); /* all zeros where `opt` has none */

/* The rule in force: scale_rule, or the usual one where its interval is 0 (passes/train/scale_loss.c). */
LossScaleRule loss_scale_rule(const BuildOptions *opt);

#endif
