/* Number formats of 8 bits and less: encoding and decoding floats by a table of formats, packing elements of less than
 * a byte. */
#include "graph/tensor/narrow_types.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef struct {
    int mantissa, bias; /* bits of the mantissa; exponent bias */
    uint8_t sign;       /* the sign bit */
    uint8_t most;       /* the bits of the largest finite number */
    int nan, infinity;  /* their bits; -1: the format has none */
    bool zero_once;     /* there is no -0, and NaN has no sign */
} Format;

/* The format of a float type with a sign. */
static Format format_of(DType t)
{
    switch (t) {
    case DT_FLOAT8E4M3FN: return (Format){ 3, 7, 0x80, 0x7e, 0x7f, -1, false };
    case DT_FLOAT8E4M3FNUZ: return (Format){ 3, 8, 0x80, 0x7f, 0x80, -1, true };
    case DT_FLOAT8E5M2: return (Format){ 2, 15, 0x80, 0x7b, 0x7e, 0x7c, false };
    case DT_FLOAT8E5M2FNUZ: return (Format){ 2, 16, 0x80, 0x7f, 0x80, -1, true };
    default: return (Format){ 1, 1, 0x08, 0x07, -1, -1, false }; /* E2M1 */
    }
}

static bool is_nan(const Format *f, uint8_t bits)
{
    if (f->zero_once)
        return bits == f->nan;
    return f->infinity >= 0 ? (bits & ~f->sign) > f->infinity : f->nan >= 0 && (bits & ~f->sign) == f->nan;
}

double small_value(DType t, uint8_t bits)
{
    const Format f = format_of(t);
    const uint8_t all = bits & (uint8_t)~f.sign;
    const int e = all >> f.mantissa, m = all & ((1 << f.mantissa) - 1);
    double v;

    if (dtype_is_small_int(t))
        return t == DT_INT4 || t == DT_INT2 ? (double)(int8_t)bits : (double)bits;
    if (t == DT_FLOAT8E8M0)
        return bits == 0xff ? NAN : ldexp(1, bits - 127);
    if (is_nan(&f, bits))
        return bits & f.sign && !f.zero_once ? -NAN : NAN;
    v = all == f.infinity ? INFINITY
        : e               ? ldexp(m + (1 << f.mantissa), e - f.bias - f.mantissa)
                          : ldexp(m, 1 - f.bias - f.mantissa);
    return bits & f.sign ? -v : v;
}

/* E8M0 holds powers of two, and NaN. */

static uint8_t power_of_two(double v, SmallRounding how)
{
    double a = fabs(v);
    int e;

    if (isnan(v) || (!how.saturate && (isinf(v) || a < 0x1p-127)))
        return 0xff;
    if (isinf(v))
        return 0xfe;
    if (a <= 0x1p-127)
        return 0;
    a = frexp(a, &e); /* v = 2a * 2^(e-1), with 2a in [1, 2) */
    e += (how.mode == 'u' ? a > 0.5 : how.mode == 'n' && a >= 0.75) - 1;
    if (e > 127)
        return how.saturate ? 0xfe : 0xff;
    return (uint8_t)(e + 127);
}

/* The bits of a >= 0, rounded to nearest even; more than f->most: it is too large. */
static unsigned bits_of(const Format *f, double a)
{
    int e;

    if (a == 0 || a > 0x1p20)
        return a == 0 ? 0 : UINT_MAX;
    frexp(a, &e);
    if (e < 2 - f->bias) /* subnormal */
        e = 2 - f->bias;
    a = nearbyint(ldexp(a, f->mantissa + 1 - e)); /* 2^mantissa to 2^(mantissa+1), or less when subnormal */
    if (a >= 2 << f->mantissa) {
        a /= 2;
        e++;
    }
    return (unsigned)a + ((unsigned)(e + f->bias - 2) << f->mantissa);
}

uint8_t small_from(DType t, double v, SmallRounding how)
{
    const Format f = format_of(t);
    const uint8_t sign = signbit(v) ? f.sign : 0;
    unsigned bits;

    if (dtype_is_small_int(t))
        return small_from_int(t, isnan(v) ? 0 : v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v);
    if (t == DT_FLOAT8E8M0)
        return power_of_two(v, how);
    if (isnan(v))
        return f.nan < 0 ? f.sign : f.zero_once ? (uint8_t)f.nan : (uint8_t)(sign | f.nan);
    bits = bits_of(&f, fabs(v));
    if (bits > f.most) {
        if (how.saturate || f.nan < 0)
            return sign | f.most;
        return f.infinity >= 0 ? (uint8_t)(sign | f.infinity) : f.zero_once ? (uint8_t)f.nan : (uint8_t)(sign | f.nan);
    }
    return bits || !f.zero_once ? (uint8_t)(sign | bits) : 0;
}

uint8_t small_from_int(DType t, int64_t v)
{
    switch (t) {
    case DT_UINT4: return (uint8_t)(v & 15);
    case DT_INT4: return (uint8_t)(((v & 15) ^ 8) - 8);
    case DT_UINT2: return (uint8_t)(v & 3);
    case DT_INT2: return (uint8_t)(((v & 3) ^ 2) - 2);
    default: return small_from(t, (double)v, SMALL_ROUNDING);
    }
}

/* ---- files ---- */

size_t packed_bytes(DType t, int64_t numel)
{
    const size_t n = (size_t)numel, bits = dtype_bits(t);

    return n / 8 * bits + (n % 8 * bits + 7) / 8;
}

void packed_read(Tensor *to, const uint8_t *from)
{
    const unsigned bits = dtype_bits(to->dtype), each = 8 / bits;
    const int64_t n = tensor_numel(to);

    if (bits >= 8 && n)
        memcpy(to->data, from, tensor_bytes(to));
    for (int64_t i = 0; bits < 8 && i < n; i++) {
        const unsigned v = from[i / each] >> bits * (unsigned)(i % each) & ((1u << bits) - 1);

        ((uint8_t *)to->data)[i] = to->dtype == DT_FLOAT4E2M1 ? (uint8_t)v : small_from_int(to->dtype, v);
    }
}

void packed_write(uint8_t *to, const Tensor *from)
{
    const unsigned bits = dtype_bits(from->dtype), each = 8 / bits;
    const int64_t n = tensor_numel(from);

    if (bits >= 8) {
        if (n)
            memcpy(to, from->data, tensor_bytes(from));
        return;
    }
    memset(to, 0, packed_bytes(from->dtype, n));
    for (int64_t i = 0; i < n; i++)
        to[i / each] |=
            (uint8_t)((((const uint8_t *)from->data)[i] & ((1u << bits) - 1)) << bits * (unsigned)(i % each));
}
