/* Checks a partitioned training graph against the unpartitioned one by running both on the same random batch. */
#ifndef DPX_EXEC_VERIFY_H
#define DPX_EXEC_VERIFY_H

#include <stdio.h>

#include "passes/pass.h"

/* One tensor that both graphs compute: an output (the loss, "grad:NAME" ...) or a state after the step. */
typedef struct {
    const char *name;
    bool is_state;
    int copies;        /* of the partitioned graph; the worst one counts */
    double difference; /* ||a - b|| / ||b||; where b is zero but for rounding, relative to the norm of all tensors of
                        * its kind (gradients; states; other outputs) together */
    double noise;      /* what rounding alone does to b, measured the same way (exec/inspect/verify_noise.h) */
    double norm;       /* ||b|| */
    bool zero;         /* b is zero but for rounding */
    bool not_a_number; /* both hold NaN in the same places, which proves little */
} VerifyRow;

typedef struct {
    VerifyRow *row; /* in the arena, worst first: by the difference in units of what rounding does */
    int n_row;
    double worst; /* difference */
    double times; /* the largest difference in units of what rounding does: max(VERIFY_FLOOR, noise) */
} Verify;

/* A tensor fails when its difference is above VERIFY_TIMES * max(VERIFY_FLOOR, noise). */
#define VERIFY_TIMES 10.0
#define VERIFY_FLOOR 1e-12

/* Two graphs made from the same model; same inputs.  `seed` chooses the batch; labels and indices stay within the
 * tables they select from, and one in five labels is `opt->ignore_index` if there is one.  Parameters as the graphs
 * say; moments of the optimizer ("PARAM.exp_avg") are small random numbers, as in the midst of a training: at zero Adam
 * divides a gradient by its own size, and the rounding of one that should be zero would become a step of full
 * length. */
Status verify_graphs(Verify *out, Arena *a, const Graph *one, const Graph *many, const BuildOptions *opt,
                     uint64_t seed) CHECKED;

/* Builds both from an imported model in float64, with every gradient as an output. */
Status verify_partition(Verify *out, Arena *a, const Graph *imported, const BuildOptions *opt, Evaluator eval,
                        uint64_t seed) CHECKED;

/* A table of the `most` worst tensors; 0: all. */
Status verify_print(const Verify *v, FILE *to, int most) CHECKED;

#endif
