/* The functions of one element that generated kernels are made of (kernels/cuda/cuda_generate.c), and how such a kernel
 * reads and writes memory.  They compute what kernels/ref does, element by element; 16-bit floats are computed in
 * float.
 *
 * What C leaves undefined is defined: integers wrap, x / 0 = 0, x mod 0 = 0, a shift by the width or more gives 0, a
 * float that an integer cannot hold becomes its nearest value and NaN becomes 0. */
#pragma once
#include "kernels/cuda/device/kernel.cuh"

namespace ew
{

#define EW template <class T> __device__ __forceinline__ T
#define EW_TEST template <class T> __device__ __forceinline__ bool
#define EW_MATH(name)                                                           \
    __device__ __forceinline__ float m_##name(float x) { return ::name##f(x); } \
    __device__ __forceinline__ double m_##name(double x) { return ::name(x); }

template <class T> struct Type {
    static constexpr bool is_float = false, is_signed = (T)-1 < (T)0;
};
template <> struct Type<float> {
    static constexpr bool is_float = true, is_signed = true;
};
template <> struct Type<double> {
    static constexpr bool is_float = true, is_signed = true;
};

/* ---- memory: N elements of an operand that stand together ---- */

template <class C, class T> __device__ __forceinline__ C widen(T x) { return (C)x; }
template <> __device__ __forceinline__ float widen<float, f16>(f16 x) { return to_float(x); }
template <> __device__ __forceinline__ float widen<float, bf16>(bf16 x) { return to_float(x); }

template <class T, class C> __device__ __forceinline__ T narrow(C x)
{
    if constexpr (Type<C>::is_float)
        return from_float<T>(x);
    else
        return (T)x;
}

/* `whole`: all N are there, and p is aligned to N elements; else the first `count` are. */
template <int N, class C, class T> __device__ __forceinline__ void load(C (&x)[N], const T *p, i64 count, bool whole)
{
    if (whole) {
        const Vec<T, N> v = *reinterpret_cast<const Vec<T, N> *>(p);

#pragma unroll
        for (int k = 0; k < N; k++)
            x[k] = widen<C>(v.at[k]);
    } else {
#pragma unroll
        for (int k = 0; k < N; k++)
            x[k] = k < count ? widen<C>(p[k]) : C();
    }
}

template <int N, class C, class T> __device__ __forceinline__ void store(T *p, const C (&y)[N], i64 count, bool whole)
{
    if (whole) {
        Vec<T, N> v;

#pragma unroll
        for (int k = 0; k < N; k++)
            v.at[k] = narrow<T>(y[k]);
        *reinterpret_cast<Vec<T, N> *>(p) = v;
    } else {
#pragma unroll
        for (int k = 0; k < N; k++)
            if (k < count)
                p[k] = narrow<T>(y[k]);
    }
}

template <class T> __device__ __forceinline__ T infinity() { return from_float<T>(__uint_as_float(0x7f800000u)); }
template <class T> __device__ __forceinline__ T not_a_number() { return from_float<T>(__uint_as_float(0x7fc00000u)); }

/* n / d for n < 2^31, with mul = ceil(2^(31 + shift) / d) and shift = ceil(log2 d) (Granlund, Montgomery 1994). */
__device__ __forceinline__ u32 divide(u32 n, u32 mul, u32 shift) { return (u32)(((u64)n * mul) >> (31 + shift)); }

/* ---- mathematics ---- */

EW_MATH(sqrt)
EW_MATH(exp)
EW_MATH(log)
EW_MATH(erf)
EW_MATH(sin)
EW_MATH(cos)
EW_MATH(tan)
EW_MATH(asin)
EW_MATH(acos)
EW_MATH(atan)
EW_MATH(sinh)
EW_MATH(cosh)
EW_MATH(tanh)
EW_MATH(asinh)
EW_MATH(acosh)
EW_MATH(atanh)
EW_MATH(ceil)
EW_MATH(floor)
EW_MATH(rint)
EW_MATH(expm1)
EW_MATH(log1p)
EW_MATH(fabs)
__device__ __forceinline__ float m_fmod(float a, float b) { return ::fmodf(a, b); }
__device__ __forceinline__ double m_fmod(double a, double b) { return ::fmod(a, b); }
__device__ __forceinline__ float m_pow(float a, float b) { return ::powf(a, b); }
__device__ __forceinline__ double m_pow(double a, double b) { return ::pow(a, b); }
#undef EW_MATH

EW identity(T x) { return x; }
EW neg(T x)
{
    if constexpr (Type<T>::is_float)
        return -x;
    else
        return (T)(0 - (u64)x);
}
EW abs(T x)
{
    if constexpr (Type<T>::is_float)
        return m_fabs(x);
    else
        return Type<T>::is_signed && x < (T)0 ? neg(x) : x;
}
EW reciprocal(T x) { return 1 / x; }
EW sqrt(T x) { return m_sqrt(x); }
EW exp(T x) { return m_exp(x); }
EW log(T x) { return m_log(x); }
EW erf(T x) { return m_erf(x); }
EW sin(T x) { return m_sin(x); }
EW cos(T x) { return m_cos(x); }
EW tan(T x) { return m_tan(x); }
EW asin(T x) { return m_asin(x); }
EW acos(T x) { return m_acos(x); }
EW atan(T x) { return m_atan(x); }
EW sinh(T x) { return m_sinh(x); }
EW cosh(T x) { return m_cosh(x); }
EW asinh(T x) { return m_asinh(x); }
EW acosh(T x) { return m_acosh(x); }
EW atanh(T x) { return m_atanh(x); }
EW ceil(T x) { return m_ceil(x); }
EW floor(T x) { return m_floor(x); }
EW round(T x) { return m_rint(x); }
EW sign(T x) { return x != x ? x : (T)((x > (T)0) - (x < (T)0)); }
EW bitwise_not(T x) { return (T)~x; }
EW_TEST logical_not(T x) { return !x; }
EW_TEST is_nan(T x) { return x != x; }
EW_TEST is_inf(T x, bool negative, bool positive) { return x == x && x - x != (T)0 && (x < 0 ? negative : positive); }

/* ---- arithmetic of two ---- */

EW add(T a, T b)
{
    if constexpr (Type<T>::is_float)
        return a + b;
    else
        return (T)((u64)a + (u64)b);
}
EW sub(T a, T b)
{
    if constexpr (Type<T>::is_float)
        return a - b;
    else
        return (T)((u64)a - (u64)b);
}
EW mul(T a, T b)
{
    if constexpr (Type<T>::is_float)
        return a * b;
    else
        return (T)((u64)a * (u64)b);
}
EW div(T a, T b)
{
    if constexpr (Type<T>::is_float)
        return a / b;
    else
        return b == 0 ? (T)0 : Type<T>::is_signed && b == (T)-1 ? neg(a) : (T)(a / b);
}
EW mean(T sum, i64 n) { return sum / (T)n; }
EW prelu(T x, T slope) { return x < (T)0 ? mul(x, slope) : x; }
/* The sign is a's for `c`, else b's. */
EW mod(T a, T b, bool c)
{
    if constexpr (Type<T>::is_float) {
        return m_fmod(a, b);
    } else {
        if (b == 0 || (Type<T>::is_signed && b == (T)-1))
            return 0;
        const T r = (T)(a % b);
        return !c && r != 0 && (r < (T)0) != (b < (T)0) ? (T)(r + b) : r;
    }
}
EW bit_shift(T a, T b, bool left) { return b >= 8 * sizeof(T) ? (T)0 : left ? (T)((u64)a << b) : (T)((u64)a >> b); }
EW bitwise_and(T a, T b) { return (T)(a & b); }
EW bitwise_or(T a, T b) { return (T)(a | b); }
EW bitwise_xor(T a, T b) { return (T)(a ^ b); }
/* A NaN stays. */
EW max(T a, T b) { return a > b || a != a ? a : b; }
EW min(T a, T b) { return a < b || a != a ? a : b; }

EW_TEST equal(T a, T b) { return a == b; }
EW_TEST greater(T a, T b) { return a > b; }
EW_TEST less(T a, T b) { return a < b; }
EW_TEST greater_or_equal(T a, T b) { return a >= b; }
EW_TEST less_or_equal(T a, T b) { return a <= b; }
EW_TEST logical_and(T a, T b) { return a && b; }
EW_TEST logical_or(T a, T b) { return a || b; }
EW_TEST logical_xor(T a, T b) { return !a != !b; }

/* ---- choices ---- */

EW where(bool c, T a, T b) { return c ? a : b; }
EW at_least(T x, T low) { return x < low ? low : x; }
EW at_most(T x, T high) { return x > high ? high : x; }
/* dy or x times scale where the mask holds. */
EW masked(T x, bool mask, double scale) { return mask ? x * (T)scale : (T)0; }

/* ---- conversion ---- */

/* Truncates toward zero into the integer type I, to its nearest value where it does not fit. */
template <class I, class F> __device__ __forceinline__ I truncate(F v)
{
    constexpr int bits = 8 * (int)sizeof(I) - (Type<I>::is_signed ? 1 : 0);
    constexpr F limit = (F)2 * (F)((u64)1 << (bits - 1));
    constexpr I most = (I)(~(u64)0 >> (64 - bits)), least = Type<I>::is_signed ? (I)(-(i64)most - 1) : (I)0;

    return v != v ? (I)0 : v >= limit ? most : v <= (F)(Type<I>::is_signed ? -limit : (F)0) ? least : (I)v;
}

/* To the type stored as S; what comes back is what S is computed in. */
template <class S, class T> struct Cast {
    static __device__ __forceinline__ S of(T x)
    {
        if constexpr (Type<T>::is_float && !Type<S>::is_float)
            return truncate<S>(x);
        else
            return (S)x;
    }
};
template <class T> struct Cast<bool, T> {
    static __device__ __forceinline__ bool of(T x) { return x != (T)0; }
};
template <class T> struct Cast<f16, T> {
    static __device__ __forceinline__ float of(T x) { return to_float(from_float<f16>((float)x)); }
};
template <class T> struct Cast<bf16, T> {
    static __device__ __forceinline__ float of(T x) { return to_float(from_float<bf16>((float)x)); }
};
template <class S, class T> __device__ __forceinline__ auto cast(T x) { return Cast<S, T>::of(x); }

/* ---- normalisation ---- */

__device__ __forceinline__ float m_rsqrt(float x) { return rsqrtf(x); }
__device__ __forceinline__ double m_rsqrt(double x) { return rsqrt(x); }
EW normalized(T x, T mean, T var, T scale, T bias, double epsilon)
{
    return (x - mean) * (scale * m_rsqrt(var + (T)epsilon)) + bias;
}

/* ---- powers ---- */

/* By squaring, wrapping; a negative exponent gives the truncated 1 / a^|b|. */
__device__ __forceinline__ i64 power(i64 a, i64 b)
{
    u64 base = (u64)a, y = 1;

    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b; b >>= 1, base *= base)
        if (b & 1)
            y *= base;
    return (i64)y;
}
template <class T, class B> __device__ __forceinline__ T pow(T a, B b)
{
    if constexpr (Type<T>::is_float)
        return m_pow(a, (T)b);
    else if constexpr (Type<B>::is_float)
        return (T)truncate<i64>(m_pow((double)a, (double)b));
    else
        return (T)power((i64)a, (i64)b);
}

/* ---- activations ---- */

EW softplus_of(T x) { return (x > 0 ? x : (T)0) + m_log1p(m_exp(-m_fabs(x))); }
EW clamp01(T x) { return x < 0 ? (T)0 : x > 1 ? (T)1 : x; }

EW relu(T x) { return x < (T)0 ? (T)0 : x; }
EW sigmoid(T x) { return 1 / (1 + m_exp(-x)); }
EW tanh(T x) { return m_tanh(x); }
EW leaky_relu(T x, double alpha) { return x < 0 ? (T)alpha * x : x; }
EW thresholded_relu(T x, double alpha) { return x > (T)alpha ? x : (T)0; }
EW elu(T x, double alpha) { return x < 0 ? (T)alpha * m_expm1(x) : x; }
EW celu(T x, double alpha) { return x < 0 ? (T)alpha * m_expm1(x / (T)alpha) : x; }
EW selu(T x, double alpha, double gamma) { return (T)gamma * (x < 0 ? (T)alpha * m_expm1(x) : x); }
EW hard_sigmoid(T x, double alpha, double beta) { return clamp01((T)alpha * x + (T)beta); }
EW hard_swish(T x) { return x * clamp01(x / 6 + (T)0.5); }
EW softplus(T x) { return softplus_of(x); }
EW softsign(T x) { return x / (1 + m_fabs(x)); }
EW mish(T x) { return x * m_tanh(softplus_of(x)); }
EW swish(T x, double alpha) { return x * sigmoid((T)alpha * x); }
EW shrink(T x, double lambd, double bias)
{
    const double y = x < -lambd ? x + bias : x > lambd ? x - bias : x != x ? (double)x : 0;

    if constexpr (Type<T>::is_float)
        return (T)y;
    else
        return truncate<T>(y);
}

#define EW_SQRT_HALF ((T)0.70710678118654752440)
#define EW_SQRT_2_OVER_PI ((T)0.79788456080286535588)
#define EW_SQRT_1_OVER_2PI ((T)0.39894228040143267794)
#define EW_CUBIC ((T)0.044715)
EW gelu(T x, bool approximate)
{
    return approximate ? x / 2 * (1 + m_tanh(EW_SQRT_2_OVER_PI * (x + EW_CUBIC * x * x * x)))
                       : x / 2 * (1 + m_erf(x * EW_SQRT_HALF));
}
/* Phi(x) + x phi(x); or with u = sqrt(2/pi) (x + c x^3), t = tanh(u): (1 + t)/2 + x/2 (1 - t^2) du/dx */
EW gelu_grad(T dy, T x, bool approximate)
{
    if (approximate) {
        const T t = m_tanh(EW_SQRT_2_OVER_PI * (x + EW_CUBIC * x * x * x));

        return dy * ((1 + t) / 2 + x / 2 * (1 - t * t) * EW_SQRT_2_OVER_PI * (1 + 3 * EW_CUBIC * x * x));
    }
    return dy * ((1 + m_erf(x * EW_SQRT_HALF)) / 2 + x * EW_SQRT_1_OVER_2PI * m_exp(-x * x / 2));
}
EW relu_grad(T dy, T y) { return y <= 0 ? (T)0 : dy; }
EW sigmoid_grad(T dy, T y) { return dy * y * (1 - y); }
EW tanh_grad(T dy, T y) { return dy * (1 - y * y); }

/* ---- gradients of losses of x against z, by x or by z; logarithms are at least -100 ---- */

EW clamped_log(T x) { return x > -100 ? x : (T)-100; }
EW mse_grad(T dy, T x, T z, bool by_z) { return dy * 2 * (by_z ? z - x : x - z); }
EW l1_grad(T dy, T x, T z, bool by_z) { return dy * (T)(by_z ? (z > x) - (z < x) : (x > z) - (x < z)); }
EW bce_grad(T dy, T x, T z, bool by_z)
{
    const T v = (1 - x) * x;

    return dy * (by_z ? clamped_log(m_log1p(-x)) - clamped_log(m_log(x)) : (x - z) / (v > (T)1e-12f ? v : (T)1e-12f));
}
EW bce_logits_grad(T dy, T x, T z, bool by_z) { return dy * (by_z ? -x : sigmoid(x) - z); }

#undef EW_SQRT_HALF
#undef EW_SQRT_2_OVER_PI
#undef EW_SQRT_1_OVER_2PI
#undef EW_CUBIC
#undef EW_TEST
#undef EW

} // namespace ew
