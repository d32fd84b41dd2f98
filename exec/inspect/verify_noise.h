/* The differences that rounding alone makes in a graph's results: the yardstick of exec/inspect/verify.c. */
#ifndef DPX_VERIFY_NOISE_H
#define DPX_VERIFY_NOISE_H

#include "passes/pass.h"

enum { NOISE_RUNS = 2 };

/* Runs g from the inputs and states given[g->n_value], several times with the same arithmetic in another order.  Writes
 * to run[k] the values of run k, in the arena, and to *n their number, at most NOISE_RUNS.
 *
 * In all runs but the last, every rounded result is moved by a unit in its last place, up, down or not, by chance.  The
 * last run, if *reversed, takes the samples in reverse order, so that every sum over them is added in the other order.
 * It is left out where the graph draws random numbers, because these belong to positions. */
Status verify_noise(const Tensor **run[NOISE_RUNS], int *n, bool *reversed, Arena *a, const Graph *g,
                    const BuildOptions *opt, const Tensor *const *given) CHECKED;

#endif
