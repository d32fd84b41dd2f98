/* A random batch for a graph, in which every index lies within the table that it selects from. */
#ifndef DPX_VERIFY_BATCH_H
#define DPX_VERIFY_BATCH_H

#include "passes/pass.h"

/* Sets values[] of every graph input, allocated in the arena.  Floats are in [-1, 1).  Integers are below the size of
 * the smallest table that they select from, directly or behind casts, reshapes and arithmetic with constants; others
 * are 0 or 1.  One in five labels is `ignore_index`, if that is given.  Learning rates are 0.05. */
Status verify_batch(Arena *a, const Graph *g, const BuildOptions *opt, uint64_t seed, const Tensor **values) CHECKED;

#endif
