/* The language of own kernels: a KERNEL is found by its name, and the same text is compiled by nvcc for the plug-in, by
 * NVRTC (no other header is needed) and by the host's C++ compiler for the simulation (tests/sim), which defines
 * DPX_SIM and gives its own threadIdx, __syncthreads, __shfl_xor_sync ... beforehand.
 *
 *   KERNEL(relu_f32, (const float *x, float *y, long long n)) { ... }
 */
#pragma once

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

/* A block has at most KERNEL_THREADS threads, so that each may use as many registers as there can be; KERNEL_OF gives
 * another maximum.  The compiler uses no more registers than so many threads have, and no launch may have more
 * threads. */
enum { KERNEL_THREADS = 256 };
#ifndef DPX_SIM
#define KERNEL_OF(threads, name, params) extern "C" __global__ void __launch_bounds__(threads) name params
#define KERNEL(name, params) KERNEL_OF(KERNEL_THREADS, name, params)
#define DYNAMIC_SHARED(T, name)                                   \
    extern __shared__ __align__(16) unsigned char name##_bytes[]; \
    T *name = reinterpret_cast<T *>(name##_bytes)
#endif

/* 16-bit floats as bits; arithmetic is done in float. */
struct f16 {
    unsigned short bits;
};
struct bf16 {
    unsigned short bits;
};

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ double to_float(double x) { return x; }

#ifndef DPX_SIM
__device__ __forceinline__ float to_float(f16 x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
#else
inline float to_float(f16 x) { return dpx_sim::f16_to_float(x.bits); }
inline float to_float(bf16 x) { return dpx_sim::bf16_to_float(x.bits); }
#endif

/* from_float<T>(x): rounds to nearest even. */
template <class T> __device__ __forceinline__ T from_float(float x) { return (T)x; }
#ifndef DPX_SIM
template <> __device__ __forceinline__ f16 from_float<f16>(float x)
{
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x)
{
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
#else
template <> inline f16 from_float<f16>(float x) { return f16{ dpx_sim::float_to_f16(x) }; }
template <> inline bf16 from_float<bf16>(float x) { return bf16{ dpx_sim::float_to_bf16(x) }; }
#endif
template <class T> __device__ __forceinline__ T from_float(double x) { return (T)x; }

/* The type in which sums of T are accumulated. */
template <class T> struct Accumulator {
    typedef float type;
};
template <> struct Accumulator<double> {
    typedef double type;
};

/* N elements moved by one access: 16 bytes for N = 16 / sizeof(T). */
template <class T, int N> struct alignas(sizeof(T) * N) Vec {
    T at[N];
};
