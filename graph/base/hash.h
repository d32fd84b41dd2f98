/* FNV-1a hashes of 64 bits, for hash tables; they do not resist deliberate collisions.  And the output function of
 * splitmix64, by which numbers that are drawn by a key look random. */
#ifndef DPX_BASE_HASH_H
#define DPX_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_BEGIN 14695981039346656037u

static inline uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)p)[i]) * 1099511628211u;
    return h;
}

static inline uint64_t hash_int(uint64_t h, int64_t v) { return hash_bytes(h, &v, sizeof v); }
static inline uint64_t hash_text(uint64_t h, const char *s)
{
    return s ? hash_bytes(h, s, strlen(s) + 1) : hash_int(h, 0);
}

#define HASH_GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* the step of splitmix64's state */

/* The output function of splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t hash_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A number that seed, epoch and row determine. */
static inline uint64_t hash_draw(uint64_t seed, int64_t epoch, int64_t row)
{
    return hash_mix(seed * UINT64_C(0xd1342543de82ef95) + (uint64_t)epoch * UINT64_C(0xda942042e4dd58b5) +
                    ((uint64_t)row + 1) * HASH_GOLDEN);
}

#endif
