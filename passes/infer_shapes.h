/* What infer-shapes finds that other passes ask for. */
#ifndef DPX_INFER_SHAPES_H
#define DPX_INFER_SHAPES_H

#include "passes/pass.h"

/* Samples of a batch: --batch-size, else the length of the axis that carries the batch in the first input that does (--batch-input,
 * else the first axis of the first input that has one); 1 when none does. */
int64_t batch_size(const Graph *g, const BuildOptions *opt);

#endif
