/* Conversion of floats to integers that is defined for all numbers; in C, it is undefined for numbers out of range. */
#ifndef DPX_SATURATE_H
#define DPX_SATURATE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Truncates v toward zero to a signed type of `bits` value bits.  Out of range: the nearest value; NaN: 0. */
static inline int64_t saturate(double v, size_t bits)
{
    const double limit = ldexp(1.0, (int)bits);

    if (isnan(v))
        return 0;
    if (v >= limit)
        return (int64_t)(UINT64_MAX >> (64 - bits));
    return v <= -limit ? -(int64_t)(UINT64_MAX >> (64 - bits)) - 1 : (int64_t)v;
}

static inline uint64_t saturate_unsigned(double v, size_t bits)
{
    if (isnan(v) || v <= 0)
        return 0;
    return v >= ldexp(1.0, (int)bits) ? UINT64_MAX >> (64 - bits) : (uint64_t)v;
}

#endif
