/* Random numbers of a key: number i is a hash of key and i, so that any order of draws gives the same. */
#ifndef DPX_TOOLS_IMAGE_RANDOM_H
#define DPX_TOOLS_IMAGE_RANDOM_H

#include "graph/base/hash.h"

/* The key of a sample in an epoch. */
static inline uint64_t sample_key(uint64_t seed, int64_t epoch, int64_t sample)
{
    return hash_mix(hash_mix(hash_mix(seed + 1) + (uint64_t)epoch) + (uint64_t)sample);
}

/* Number `i` of a key, uniform in [from, to). */
static inline double uniform(uint64_t key, uint64_t i, double from, double to)
{
    return from + (double)(hash_mix(key + (i + 1) * HASH_GOLDEN) >> 11) * 0x1p-53 * (to - from);
}

static inline int uniform_int(uint64_t key, uint64_t i, int n) { return (int)uniform(key, i, 0, n); }

#endif
