/* Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
 *
 * Random numbers are a function of (seed, step, node, global element): nothing is carried from one draw to the next, so
 * the mask of sample 17 is the same for every way of splitting the batch, on every device and after a resume.  This
 * file is plain C with no includes but <stdint.h>, for both the CPU and the CUDA kernels.
 *
 * Element i is word i mod 4 of the block with counter (i / 4 as 64 bits, step mod 2^32, node) under the key `seed`. */
#ifndef DPX_PHILOX_H
#define DPX_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define PHILOX_FN static __host__ __device__ inline
#else
#define PHILOX_FN static inline
#endif

typedef struct {
    uint32_t word[4];
} PhiloxBlock;

PHILOX_FN PhiloxBlock philox4x32_10(PhiloxBlock counter, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * counter.word[0], p1 = (uint64_t)0xCD9E8D57u * counter.word[2];
        PhiloxBlock next;

        next.word[0] = (uint32_t)(p1 >> 32) ^ counter.word[1] ^ key0;
        next.word[1] = (uint32_t)p1;
        next.word[2] = (uint32_t)(p0 >> 32) ^ counter.word[3] ^ key1;
        next.word[3] = (uint32_t)p0;
        counter = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

/* The key of a draw: the seed of the run (or of the node, if it has its own), the step, and the node's number in the
 * model. */
typedef struct {
    uint64_t seed;
    uint32_t step, node;
} PhiloxKey;

/* Elements 4 * block .. 4 * block + 3. */
PHILOX_FN PhiloxBlock philox_block(PhiloxKey k, int64_t block)
{
    PhiloxBlock counter;

    counter.word[0] = (uint32_t)(uint64_t)block;
    counter.word[1] = (uint32_t)((uint64_t)block >> 32);
    counter.word[2] = k.step;
    counter.word[3] = k.node;
    return philox4x32_10(counter, (uint32_t)k.seed, (uint32_t)(k.seed >> 32));
}

/* An element is kept when its word is at least this: with probability 1 - ratio, to 2^-32. */
PHILOX_FN uint64_t philox_threshold(double ratio)
{
    return ratio <= 0 ? 0 : ratio >= 1 ? (uint64_t)1 << 32 : (uint64_t)(ratio * 4294967296.0);
}

/* Uniform in (0, 1), exact in double; its 24 leading bits, in [0, 1), for float. */
PHILOX_FN double philox_uniform(uint32_t word) { return (word + 0.5) * (1.0 / 4294967296.0); }
PHILOX_FN float philox_uniform_float(uint32_t word) { return (float)(word >> 8) * (1.0f / 16777216.0f); }

/* Where a local tensor of (outer, dim, inner) lies in the global one of (outer, split_dim, inner): row o of local
 * elements, dim * inner long, starts at global element (o * split_dim + offset) * inner. */
typedef struct {
    int64_t outer, row, global_row, global_start;
} PhiloxSpan;

PHILOX_FN PhiloxSpan philox_span(int64_t outer, int64_t dim, int64_t inner, int64_t split_dim, int64_t offset)
{
    PhiloxSpan s;

    s.outer = outer;
    s.row = dim * inner;
    s.global_row = split_dim * inner;
    s.global_start = offset * inner;
    return s;
}

#endif
