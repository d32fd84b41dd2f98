/* Floats of 16 bits as bits: IEEE binary16 and bfloat16, rounded to nearest even; any NaN becomes 0x7fff, as on a
 * GPU. */
#pragma once

#include <math.h>
#include <string.h>

namespace dpx_sim
{

inline float from_bits(unsigned bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
inline unsigned to_bits(float f)
{
    unsigned bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

inline float f16_to_float(unsigned short h)
{
    unsigned sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, fraction = h & 1023;

    if (exponent == 31)
        return from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
}

inline unsigned short float_to_f16(float f)
{
    unsigned bits = to_bits(f), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u)
        return 0x7fff;
    if (magnitude >= 0x477ff000u) /* 65520 and more round to infinity */
        return (unsigned short)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) /* below 2^-14: units of 2^-24; rintf rounds to even */
        return (unsigned short)(sign | (unsigned)rintf(from_bits(magnitude) * 0x1p24f));
    magnitude += 0xfffu + (magnitude >> 13 & 1);
    return (unsigned short)(sign | ((magnitude >> 13) - (112u << 10)));
}

inline float bf16_to_float(unsigned short b) { return from_bits((unsigned)b << 16); }

inline unsigned short float_to_bf16(float f)
{
    unsigned bits = to_bits(f);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

} // namespace dpx_sim
