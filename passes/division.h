/* How a graph is divided: samples among replicas, tensors among devices. */
#ifndef DPX_DIVISION_H
#define DPX_DIVISION_H

typedef enum {
    SPLIT_BALANCED,
    SPLIT_CHUNK,
    SPLIT_WEIGHTS,
    SPLIT_AUTO /* weights that are measured first (exec/inspect/replica_weights.h) */
} SplitMode;

/* How an operator that mixes samples gets those of other replicas (passes/partition/mixed_samples.c). */
typedef enum { MIX_AUTO, MIX_GATHER, MIX_EXCHANGE } MixMode;

/* Which tensors each device has only a piece of: each level adds to the one before it (passes/partition/shard.c). */
typedef enum { SHARD_NONE, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_PARAMETERS } ShardMode;

#endif
