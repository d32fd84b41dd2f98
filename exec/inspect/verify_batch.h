/* A random batch for a graph, such that every index lies within what it selects from. */
#ifndef DPX_VERIFY_BATCH_H
#define DPX_VERIFY_BATCH_H

#include "passes/pass.h"

/* Sets values[] of every graph input: floats in (-1, 1), integers below the smallest table they select from (directly
 * or behind casts, reshapes and arithmetic with constants), one in five labels `ignore_index` if there is one,
 * learning_rate 0.05. */
Status verify_batch(Arena *a, const Graph *g, const BuildOptions *opt, uint64_t seed, const Tensor **values) CHECKED;

#endif
