/* What infer-shapes finds that other passes ask for. */
#ifndef DPX_INFER_SHAPES_H
#define DPX_INFER_SHAPES_H

#include "passes/pass.h"
#include "passes/options/batch.h"

/* Samples of a batch: --batch-size, else the length of the axis that carries the batch in the first input that does
 * (passes/batch_axis.h); 1 when none does. */
int64_t batch_size(const Graph *g, const BuildOptions *opt);

/* What --input-shape says of the input; NULL: nothing. */
const InputShape *given_shape(const BuildOptions *opt, const char *name);
/* The size of the batch that the model's inputs declare; -1: open, or no input carries one. */
int64_t declared_batch(const Graph *g, const BuildOptions *opt);
/* E_INVALID: --batch-input names no input, no axis of it, or one whose size is fixed while another's is open. */
Status check_batch_inputs(const Graph *g, const BuildOptions *opt) CHECKED;
/* Gives the axes of all inputs that carry the batch this size (not those of --input-shape, which says all of an
 * input's). */
void bind_batch_axes(Graph *g, const BuildOptions *opt, int64_t size);
/* The types and shapes of what the node makes; where that is integers and known, it becomes constant. */
Status infer_and_fold(Graph *g, PassCtx *ctx, Node *n) CHECKED;

#endif
