/* Binding and inference of shapes, and the batch size, for other passes (infer_shapes.c). */
#ifndef DPX_INFER_SHAPES_H
#define DPX_INFER_SHAPES_H

#include "passes/pass.h"

typedef struct InputShape InputShape; /* passes/options/batch.h */

/* Number of samples in a batch: --batch-size, else the length of the batch axis of the first input that has one
 * (passes/batch_axis.h), else 1. */
int64_t batch_size(const Graph *g, const BuildOptions *opt);

/* The --input-shape of the input; NULL: none. */
const InputShape *given_shape(const BuildOptions *opt, const char *name);
/* The batch size that the model's inputs declare; -1: it is open, or no input carries a batch. */
int64_t declared_batch(const Graph *g, const BuildOptions *opt);
/* E_INVALID: --batch-input names no input, no axis of it, or one whose size is fixed while another's is open. */
Status check_batch_inputs(const Graph *g, const BuildOptions *opt) CHECKED;
/* Gives the axes of all inputs that carry the batch this size (not those of --input-shape, which says all of an
 * input's). */
void bind_batch_axes(Graph *g, const BuildOptions *opt, int64_t size);
/* Infers the types and shapes of the node's outputs, and folds the node if its outputs are integers and its inputs are
 * known. */
Status infer_and_fold(Graph *g, PassCtx *ctx, Node *n) CHECKED;

#endif
