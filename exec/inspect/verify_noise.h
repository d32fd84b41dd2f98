/* What rounding alone does to a graph's results: the yardstick of exec/inspect/verify.c. */
#ifndef DPX_VERIFY_NOISE_H
#define DPX_VERIFY_NOISE_H

#include "passes/pass.h"

enum { NOISE_RUNS = 2 };

/* Runs of g from the inputs and states given[g->n_value], each with all values: *n of at most NOISE_RUNS in run[]. They
 * are what the same arithmetic in another order would give: in all but the last every result that was rounded is moved
 * by a unit in its last place, up, down or not, by chance; the last takes the samples in reverse, so that every sum
 * over them is added in the other order.  It is left out where the graph draws random numbers, which belong to
 * positions. */
Status verify_noise(const Tensor **run[NOISE_RUNS], int *n, bool *reversed, Arena *a, const Graph *g,
                    const BuildOptions *opt, const Tensor *const *given) CHECKED;

#endif
