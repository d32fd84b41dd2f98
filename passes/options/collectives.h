/* Options of collectives: sharding, buckets, types and costs of what devices exchange. */
#ifndef DPX_PASSES_OPTIONS_COLLECTIVES_H
#define DPX_PASSES_OPTIONS_COLLECTIVES_H

#include <stdint.h>

#include "graph/tensor/dtype.h"
#include "passes/division.h"

typedef struct BuildOptions BuildOptions;

/* A sum of S bytes over all devices takes seconds + per_byte * S. */
typedef struct {
    double seconds, per_byte;
    double flops; /* a device's operations in a second */
    bool beside;  /* sums run while devices compute */
} SumCost;

typedef struct CollectiveOptions {
    MixMode mix;
    ShardMode shard;
    bool master; /* SHARD_PARAMETERS: the first device has all pieces */
    int64_t
        bucket_bytes; /* most bytes of gradients in one collective (passes/partition/bucket_gradients.c); 0: chosen */
    const SumCost *sum_cost; /* by which bucket_bytes is chosen; NULL: unknown */
    DType reduce; /* type of gradients between devices (passes/partition/narrow_sums.c); DT_NONE: their own */
} CollectiveOptions;

const CollectiveOptions *collective_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
