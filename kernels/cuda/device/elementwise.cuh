/* The functions of one element that generated kernels are made of (kernels/cuda/cuda_generate.c), and how such a kernel
 * reads and writes memory.  Most of them are rows of kernels/formulas.def, which kernels/ref and kernels/cpu are made
 * of as well; 16-bit floats are computed in float.
 *
 * A float that an integer cannot hold becomes its nearest value, and NaN becomes 0. */
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

/* Overloads for formulas that are called with integers as well. */
template <class I> __device__ __forceinline__ I m_fabs(I x) { return x; }
template <class I> __device__ __forceinline__ I m_fmod(I a, I) { return a; }

/* Truncates toward zero into the integer type I, to its nearest value where it does not fit. */
template <class I, class F> __device__ __forceinline__ I truncate(F v)
{
    constexpr int bits = 8 * (int)sizeof(I) - (Type<I>::is_signed ? 1 : 0);
    constexpr F limit = (F)2 * (F)((u64)1 << (bits - 1));
    constexpr I most = (I)(~(u64)0 >> (64 - bits)), least = Type<I>::is_signed ? (I)(-(i64)most - 1) : (I)0;

    return v != v ? (I)0 : v >= limit ? most : v <= (F)(Type<I>::is_signed ? -limit : (F)0) ? least : (I)v;
}
EW larger(T a, T b) { return a > b ? a : b; }
template <class T> __device__ __forceinline__ T truncated(double v)
{
    if constexpr (Type<T>::is_float)
        return (T)v;
    else
        return truncate<T>(v);
}

/* ---- the formulas of kernels/formulas.def: ew::elu(x, alpha) ---- */

#define I64 i64
#define U64 u64
#define FABS(v) m_fabs(v)
#define SQRT(v) m_sqrt(v)
#define EXP(v) m_exp(v)
#define EXPM1(v) m_expm1(v)
#define LOG(v) m_log(v)
#define LOG1P(v) m_log1p(v)
#define ERF(v) m_erf(v)
#define SIN(v) m_sin(v)
#define COS(v) m_cos(v)
#define TAN(v) m_tan(v)
#define ASIN(v) m_asin(v)
#define ACOS(v) m_acos(v)
#define ATAN(v) m_atan(v)
#define SINH(v) m_sinh(v)
#define COSH(v) m_cosh(v)
#define TANH(v) m_tanh(v)
#define ASINH(v) m_asinh(v)
#define ACOSH(v) m_acosh(v)
#define ATANH(v) m_atanh(v)
#define CEIL(v) m_ceil(v)
#define FLOOR(v) m_floor(v)
#define RINT(v) m_rint(v)
#define FMOD(a, b) m_fmod(a, b)
#define LARGER(a, b) larger<T>(a, b)
#define TRUNCATE(v) truncated<T>(v)

#define PARAMS_NONE()
#define PARAMS_NUMBER(a) , double a
#define PARAMS_NUMBERS(a, b) , double a, double b
#define PARAMS_FLAG(a, attr, word) , bool a
#define PARAMS_FLAGS(a, attr, b, other) , bool a, bool b
#define UNARY(Op, name, types, vectors, attributes, ...) \
    EW name(T x PARAMS_##attributes) { return (T)(__VA_ARGS__); }
#define BINARY(Op, name, types, vectors, attributes, ...) \
    EW name(T a, T b PARAMS_##attributes) { return (T)(__VA_ARGS__); }
#define TEST1(Op, name, types, vectors, attributes, ...) \
    EW_TEST name(T x PARAMS_##attributes) { return (bool)(__VA_ARGS__); }
#define TEST2(Op, name, types, vectors, attributes, ...) \
    EW_TEST name(T a, T b PARAMS_##attributes) { return (bool)(__VA_ARGS__); }
#define PART2(name, types, vectors, ...) \
    EW name(T a, T b) { return (void)b, (T)(__VA_ARGS__); }
#include "kernels/formulas.def"

#undef I64
#undef U64
#undef FABS
#undef SQRT
#undef EXP
#undef EXPM1
#undef LOG
#undef LOG1P
#undef ERF
#undef SIN
#undef COS
#undef TAN
#undef ASIN
#undef ACOS
#undef ATAN
#undef SINH
#undef COSH
#undef TANH
#undef ASINH
#undef ACOSH
#undef ATANH
#undef CEIL
#undef FLOOR
#undef RINT
#undef FMOD
#undef LARGER
#undef TRUNCATE
#undef PARAMS_NONE
#undef PARAMS_NUMBER
#undef PARAMS_NUMBERS
#undef PARAMS_FLAG
#undef PARAMS_FLAGS
#undef UNARY
#undef BINARY
#undef TEST1
#undef TEST2
#undef PART2
#undef IS_REAL
#undef HAS_SIGN
#undef SUM
#undef DIFFERENCE
#undef PRODUCT
#undef NEGATIVE
#undef QUOTIENT
#undef REMAINDER
#undef IS_MINUS_1
#undef CLAMP01
#undef SIGMOID
#undef SOFTPLUS
#undef BELL
#undef NORMAL
#undef ONE_OVER_SQRT_2PI
#undef TANH_STEP
#undef TANH_STEP_SLOPE
#undef SQRT_2_OVER_PI
#undef GELU_CUBIC
#undef GELU_U
#undef GELU_SLOPE
#undef GELU_TANH_SLOPE
#undef LOSS_LOG
#undef LOSS_LOG1P

/* ---- of several operands ---- */

EW mean(T sum, i64 n) { return sum / (T)n; }

EW where(bool c, T a, T b) { return c ? a : b; }
/* dy or x times scale where the mask holds. */
EW masked(T x, bool mask, double scale) { return mask ? x * (T)scale : (T)0; }

/* ---- conversion ---- */

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

/* ---- gradients of losses of x against z, by x or by z ---- */

EW mse_grad(T dy, T x, T z, bool by_z) { return dy * (by_z ? mse_by_target(x, z) : mse_by_prediction(x, z)); }
EW l1_grad(T dy, T x, T z, bool by_z) { return dy * (by_z ? l1_by_target(x, z) : l1_by_prediction(x, z)); }
EW bce_grad(T dy, T x, T z, bool by_z) { return dy * (by_z ? bce_by_target(x, z) : bce_by_prediction(x, z)); }
EW bce_logits_grad(T dy, T x, T z, bool by_z)
{
    return dy * (by_z ? bce_logits_by_target(x, z) : bce_logits_by_prediction(x, z));
}

#undef EW_TEST
#undef EW

} // namespace ew
