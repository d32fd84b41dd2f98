/* Options of batch normalisation: whose statistics a replica normalises by, and which become running ones. */
#ifndef DPX_PASSES_OPTIONS_BATCH_NORM_H
#define DPX_PASSES_OPTIONS_BATCH_NORM_H

#include <stdbool.h>

typedef struct BuildOptions BuildOptions;

/* Whose statistics a batch-norm takes, and which become its running ones (docs/reference/replicas.md): those of the
 * whole batch; a part's, and the first replica's; a part's, and the mean of all replicas'. */
typedef enum { BN_SYNC, BN_LOCAL, BN_AVERAGE } BatchNormMode;

typedef struct BatchNormOptions {
    BatchNormMode bn;
    int bn_group; /* BN_SYNC: replicas that share statistics; 0: all */
    bool bn_unbiased;
    bool bn_clamp;    /* several replicas: max(variance, epsilon) instead of their sum */
    bool own_buffers; /* BN_LOCAL: each replica keeps running statistics of its own */
} BatchNormOptions;

const BatchNormOptions *batch_norm_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
