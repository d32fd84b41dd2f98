/* FNV-1a hashes of 64 bits, for hash tables; they do not resist deliberate collisions. */
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

#endif
