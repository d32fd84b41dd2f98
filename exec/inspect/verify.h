/* Checks a partitioned training graph against the unpartitioned one: runs both on the same random batch. */
#ifndef DPX_EXEC_VERIFY_H
#define DPX_EXEC_VERIFY_H

#include <stdio.h>

#include "passes/pass.h"

/* One tensor that both graphs compute: an output (the loss, "grad:NAME" ...) or a state after the step. */
typedef struct {
    const char *name;
    bool is_state;
    int copies;        /* in the partitioned graph; the worst one counts */
    double difference; /* ||a - b|| / ||b||; where b is zero but for rounding, relative to the norm of all tensors of
                        * its kind (gradients; states; other outputs) */
    double noise;      /* the difference that rounding alone makes (exec/inspect/verify_noise.h) */
    double norm;       /* ||b|| */
    bool zero;         /* b is zero but for rounding */
    bool not_a_number; /* both hold NaN in the same places, which proves little */
} VerifyRow;

typedef struct {
    VerifyRow *row; /* in the arena, by difference / max(VERIFY_FLOOR, noise), the worst first */
    int n_row;
    double worst; /* the largest difference */
    double times; /* the largest difference / max(VERIFY_FLOOR, noise) */
} Verify;

/* A tensor fails when its difference is above VERIFY_TIMES * max(VERIFY_FLOOR, noise). */
#define VERIFY_TIMES 10.0
#define VERIFY_FLOOR 1e-12

/* Compares `one` and `many`, two graphs made from the same model, on the same inputs.  `seed` chooses the batch
 * (verify_batch.h).  Parameters have the values in the graphs.  Moments of the optimizer ("PARAM.exp_avg") are small
 * random numbers, as in the midst of training: with moments of zero, Adam divides a gradient by its own size, and the
 * rounding of a gradient that should be zero would become a step of full length. */
Status verify_graphs(Verify *out, Arena *a, const Graph *one, const Graph *many, const BuildOptions *opt,
                     uint64_t seed) CHECKED;

/* Builds both graphs from an imported model in float64, with every gradient as an output, and compares them. */
Status verify_partition(Verify *out, Arena *a, const Graph *imported, const BuildOptions *opt, Evaluator eval,
                        uint64_t seed) CHECKED;

/* Prints a table of the `most` worst tensors; 0: all. */
Status verify_print(const Verify *v, FILE *to, int most) CHECKED;

#endif
