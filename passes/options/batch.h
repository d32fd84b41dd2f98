/* Options of the batch: its size, and the inputs and axes that carry it. */
#ifndef DPX_PASSES_OPTIONS_BATCH_H
#define DPX_PASSES_OPTIONS_BATCH_H

#include "graph/tensor/shape.h"

typedef struct BuildOptions BuildOptions;

typedef struct InputShape {
    const char *name;
    Shape shape;
} InputShape;

typedef struct BatchInput {
    const char *name;
    int axis; /* negative: counted from the end */
} BatchInput;

/* The axes of one input along which the data show samples, where the model leaves that open. */
typedef struct {
    const char *name;
    unsigned carries; /* bits as in Value.carries */
} CarryChoice;

typedef struct BatchOptions {
    int64_t batch;                 /* global batch size; 0: as the shapes of the inputs give it */
    const InputShape *input_shape; /* [n_input_shape] shapes that bind symbolic dimensions */
    int n_input_shape;
    const BatchInput *batch_input; /* [n_batch_input] inputs that carry the batch; none: found (passes/batch_axis.h) */
    int n_batch_input;
    const CarryChoice *carry_choice; /* [n_carry_choice] */
    int n_carry_choice;
    int64_t samples; /* samples of an epoch whose last batch is trained, too; 0: unknown */
} BatchOptions;

const BatchOptions *batch_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
