/* Elementary functions of float32 that the compiler turns into vector code: no branches, no calls, no tables.
 *
 * Largest errors, found by running every exponent and sign against double (tests/kernels/vmath.c): exp and log 1.5 ulp,
 * expm1, tanh and erf 2 ulp, log1p and sigmoid 3 ulp, softplus 4 ulp, the normal distribution 4 ulp and in its tail
 * what rounding x^2 costs. Infinities, NaN and subnormal results come out as the C library's. */
#ifndef DPX_KERNELS_CPU_VMATH_H
#define DPX_KERNELS_CPU_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float bits_to_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t float_to_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

/* e^x = a b (1 + p) with p = e^r - 1, |r| <= ln(2) / 2 and a b = 2^n; the minimax polynomial is Cephes's.  Two halves,
 * so that subnormal results and overflow are right. */
typedef struct {
    float p, a, b, inverse; /* inverse: 1 / a */
} ExpParts;

static inline ExpParts vexp_parts(float x)
{
    const float c = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    const float shifted = c * 1.44269504088896341f + 12582912.0f; /* 1.5 * 2^23: rounds to an integer */
    const float n = shifted - 12582912.0f;
    const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    const int32_t k = (int32_t)(float_to_bits(shifted) - 0x4b400000u), half = k / 2;
    float p = 1.9875691500e-4f;

    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (ExpParts){ .p = p * (r * r) + r,
                       .a = bits_to_float((uint32_t)(half + 127) << 23),
                       .b = bits_to_float((uint32_t)(k - half + 127) << 23),
                       .inverse = bits_to_float((uint32_t)(127 - half) << 23) };
}

static inline float vexpf(float x)
{
    const ExpParts e = vexp_parts(x);

    return x != x ? x : (e.p + 1.0f) * e.a * e.b;
}

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)): e ln 2 + log m, Cephes's polynomial in m - 1. */
static inline float vlogf(float x)
{
    const int tiny = x < 1.17549435e-38f;
    const uint32_t u = float_to_bits(tiny ? x * 33554432.0f : x); /* 2^25 lifts subnormals */
    const uint32_t shifted = u + (0x3f800000u - 0x3f3504f3u);
    const float e = (float)((int32_t)(shifted >> 23) - 127) - (tiny ? 25.0f : 0.0f);
    const float m = bits_to_float((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f, z = m * m;
    float p = 7.0376836292e-2f, y;

    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    y = p * m * z - 2.12194440e-4f * e - 0.5f * z;
    y = (m + y) + 0.693359375f * e;
    y = x == INFINITY ? x : y;
    y = x == 0.0f ? -INFINITY : y;
    return x >= 0.0f ? y : NAN;
}

/* e^x - 1 = a (b p + b - 1/a), so that nothing overflows on the way. */
static inline float vexpm1f(float x)
{
    const ExpParts e = vexp_parts(x);

    return x != x || x == 0.0f ? x : e.a * (e.b * e.p + (e.b - e.inverse));
}

/* log(w) x / (w - 1) for w = 1 + x: what rounding w loses is lost in both (Kahan). */
static inline float vlog1pf(float x)
{
    const float w = 1.0f + x, y = vlogf(w) * (x / (w - 1.0f));

    return w == 1.0f || w == INFINITY ? x : y;
}

/* log(1 + e^x), of e^-|x| so that nothing overflows. */
static inline float vsoftplusf(float x) { return (x > 0.0f ? x : 0.0f) + vlog1pf(vexpf(-fabsf(x))); }

/* 1 / (1 + e^-x), of e^-|x| so that nothing cancels or overflows. */
static inline float vsigmoidf(float x)
{
    const float e = vexpf(-fabsf(x)), d = 1.0f / (1.0f + e);

    return x < 0.0f ? e * d : d;
}

/* The slope of (1 + tanh u) / 2: with v = 2u it is 2 s (1 - s) for s = sigmoid(v), and s (1 - s) = e^-|v| / (1 +
 * e^-|v|)^2. */
static inline float vtanh_step_slopef(float u)
{
    const float e = vexpf(-fabsf(2 * u)), d = 1.0f / (1.0f + e);

    return 2 * (e * d * d);
}

/* Cephes: a polynomial below 0.625, else 1 - 2 / (e^2|x| + 1). */
static inline float vtanhf(float x)
{
    const float a = fabsf(x), s = x * x;
    const float far = 1.0f - 2.0f / (vexpf(2.0f * a) + 1.0f);
    float p = -5.70498872745e-3f;

    p = p * s + 2.06390887954e-2f;
    p = p * s - 5.37397155531e-2f;
    p = p * s + 1.33314422036e-1f;
    p = p * s - 3.33332819422e-1f;
    p = p * s * x + x;
    return copysignf(a < 0.625f ? p : far, x);
}

/* A polynomial in x^2 below 0.927, else 1 - e^q(|x|); coefficients by N. Juffa. */
static inline float verff(float x)
{
    const float a = fabsf(x), s = x * x, t = a < 10.0f ? a : 10.0f, tt = t * t;
    float near = -5.96761703e-4f, q = -1.72853470e-5f * t + 3.83197126e-4f;
    const float q0 = -3.88396438e-3f * t + 2.42546219e-2f;

    near = near * s + 4.99119423e-3f;
    near = near * s - 2.67681349e-2f;
    near = near * s + 1.12819925e-1f;
    near = near * s - 3.76125336e-1f;
    near = near * s + 1.28379166e-1f;
    near = near * x + x;
    q = q * tt + q0;
    q = q * t - 1.06777877e-1f;
    q = q * t - 6.34846687e-1f;
    q = q * t - 1.28717512e-1f;
    q = q * t - t;
    return a <= 0.927734375f ? near : x != x ? x : copysignf(1.0f - vexpf(q), x);
}

/* Phi(x), the standard normal distribution, where h = e^(-x^2/2) is at hand.  With a = |x| the tail is h d q(u) for
 * d = 1 / (a + 3.75) and u = (a - 3.75) d: q is the minimax polynomial of Phi(-a) / (h d), to 1.5e-8. */
static inline float vnormalf(float x, float h)
{
    const float size = fabsf(x), a = size < 14.0f ? size : 14.0f, d = 1.0f / (a + 3.75f), u = (a - 3.75f) * d;
    float q = 0.000443455551f;

    q = q * u + 0.000509639908f;
    q = q * u - 0.00416901504f;
    q = q * u + 0.00120006842f;
    q = q * u + 0.0374925042f;
    q = q * u - 0.151520834f;
    q = q * u + 0.352939605f;
    q = q * u - 0.588188278f;
    q = q * u + 0.750294074f;
    q = q * d * h;
    return x < 0.0f ? q : 1.0f - q;
}

/* In a template of kernels/each_type.inc: S(vexp)(x). */
#define vexp_f32 vexpf
#define vlog_f32 vlogf
#define vlog1p_f32 vlog1pf
#define vsigmoid_f32 vsigmoidf
static inline double vexp_f64(double x) { return exp(x); }
static inline double vlog_f64(double x) { return log(x); }
static inline double vlog1p_f64(double x) { return log1p(x); }
static inline double vsigmoid_f64(double x) { return 1 / (1 + exp(-x)); }
static inline float vlarger_f32(float a, float b) { return a > b ? a : b; }
static inline double vlarger_f64(double a, double b) { return a > b ? a : b; }

#endif
