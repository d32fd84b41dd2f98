/* CUDA C++ for the host's C++ compiler: included before every file of kernels/cuda/device and before every source given
 * to compile(), so that own kernels run on the CPU (tests/sim/block.cpp runs the threads of a block).
 *
 * One block runs at a time, in one host thread, so __shared__ variables are plain statics and atomics plain
 * operations. */
#pragma once
#define DPX_SIM 1

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/sim/half.h"

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct uint3 {
    unsigned x, y, z;
};

namespace dpx_sim
{

/* The thread that runs; the simulation changes it when it switches threads. */
struct State {
    uint3 thread;
    unsigned lane; /* of its warp */
    uint3 block;
    dim3 block_dim, grid_dim;
    unsigned char *dynamic_shared;
    size_t dynamic_bytes;
};

enum WarpOp { WARP_SYNC, WARP_SHUFFLE, WARP_BALLOT, WARP_MATCH };

/* What the simulation does for kernels. */
struct Services {
    State *state;
    void (*sync_block)(const char *file, int line);
    /* Returns when all lanes of `mask` that run have come here; then `all` holds the 32 lanes' values (garbage for
     * absent ones). */
    void (*sync_warp)(WarpOp op, unsigned mask, unsigned long long value, unsigned long long all[32], const char *file,
                      int line);
    int (*vote_block)(int predicate, const char *file, int line); /* how many threads say yes */
};

struct Param {
    size_t bytes;
    bool pointer;
};

struct KernelEntry {
    const char *name;
    void (*call)(void *const *args); /* the body, for the thread in State */
    const Param *params;
    int n_params;
    unsigned threads; /* that a block has at most */
    const KernelEntry *next;
};

/* Of this shared object. */
__attribute__((visibility("hidden"))) inline const Services *services;
__attribute__((visibility("hidden"))) inline State *state;
__attribute__((visibility("hidden"))) inline const KernelEntry *kernels;

template <class T> struct Bare {
    typedef T type;
    static constexpr bool pointer = false;
};
template <class T> struct Bare<const T> : Bare<T> {
};
template <class T> struct Bare<T *> {
    typedef T *type;
    static constexpr bool pointer = true;
};
template <class T> struct Bare<T *__restrict__> {
    typedef T *type;
    static constexpr bool pointer = true;
};
template <class T> struct Bare<T *const> {
    typedef T *type;
    static constexpr bool pointer = true;
};

template <int... I> struct Indices {
};
template <int N, int... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {
};
template <int... I> struct MakeIndices<0, I...> {
    typedef Indices<I...> type;
};

template <auto F> struct Thunk;
template <class... P, void (*F)(P...)> struct Thunk<F> {
    static constexpr int n = sizeof...(P);
    static constexpr Param params[n + 1] = { { sizeof(P), Bare<P>::pointer }..., { 0, false } };
    template <int... I> static void apply(void *const *args, Indices<I...>)
    {
        (void)args;
        F(*static_cast<const typename Bare<P>::type *>(args[I])...);
    }
    static void call(void *const *args) { apply(args, typename MakeIndices<n>::type()); }
};

struct Registration : KernelEntry {
    template <class K> Registration(const char *kernel, unsigned most, K)
    {
        name = kernel;
        threads = most;
        call = K::call;
        params = K::params;
        n_params = K::n;
        next = kernels;
        kernels = this;
    }
};

/* ---- between threads ---- */

template <class T> inline T from_lane(const unsigned long long all[32], unsigned lane)
{
    T v;

    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    memcpy(&v, &all[lane], sizeof v);
    return v;
}

/* The lane that `source` names within the lane's group of `width`, its own when that is outside. */
template <class T, class F> inline T shuffle(unsigned mask, T v, int width, F source, const char *file, int line)
{
    unsigned long long bits = 0, all[32];
    int lane = (int)state->lane, base = lane & ~(width - 1), from = source(lane - base);

    memcpy(&bits, &v, sizeof v);
    services->sync_warp(WARP_SHUFFLE, mask, bits, all, file, line);
    return from_lane<T>(all, (unsigned)(from < 0 || from >= width ? lane : base + from));
}

inline unsigned ballot(unsigned mask, bool predicate, const char *file, int line)
{
    unsigned long long all[32];
    unsigned found = 0;

    services->sync_warp(WARP_BALLOT, mask, predicate, all, file, line);
    for (int i = 0; i < 32; i++)
        if ((mask >> i & 1) && all[i] == 1)
            found |= 1u << i;
    return found;
}

/* The lanes of `mask` that hold the same value. */
template <class T> inline unsigned match_any(unsigned mask, T v, const char *file, int line)
{
    unsigned long long bits = 0, all[32];
    unsigned found = 0;

    memcpy(&bits, &v, sizeof v);
    services->sync_warp(WARP_MATCH, mask, bits, all, file, line);
    for (int i = 0; i < 32; i++)
        if ((mask >> i & 1) && all[i] == bits)
            found |= 1u << i;
    return found;
}

inline void sync_warp(unsigned mask, const char *file, int line)
{
    unsigned long long all[32];

    services->sync_warp(WARP_SYNC, mask, 0, all, file, line);
}

template <class T> inline T exchange(T *p, T v)
{
    T old = *p;
    *p = v;
    return old;
}

/* A kernel's dynamic shared memory as T; what the launch gave is checked by ASan and by the guard behind it. */
inline void *dynamic_shared() { return state->dynamic_shared; }

} // namespace dpx_sim

/* ---- the language ---- */

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __CUDA_ARCH__ 900

#define KERNEL_OF(threads, name, params)                                                               \
    static void name params;                                                                           \
    static const dpx_sim::Registration name##_registration(#name, (threads), dpx_sim::Thunk<&name>()); \
    static void name params
#define KERNEL(name, params) KERNEL_OF(KERNEL_THREADS, name, params)
#define DYNAMIC_SHARED(T, name) T *name = reinterpret_cast<T *>(dpx_sim::dynamic_shared())

#define threadIdx (dpx_sim::state->thread)
#define blockIdx (dpx_sim::state->block)
#define blockDim (dpx_sim::state->block_dim)
#define gridDim (dpx_sim::state->grid_dim)
#define warpSize 32

#define __syncthreads() dpx_sim::services->sync_block(__FILE__, __LINE__)
#define __syncthreads_count(p) dpx_sim::services->vote_block(!!(p), __FILE__, __LINE__)
#define __syncthreads_or(p) (dpx_sim::services->vote_block(!!(p), __FILE__, __LINE__) > 0)
#define __syncthreads_and(p) (dpx_sim::services->vote_block(!(p), __FILE__, __LINE__) == 0)
#define __ballot_sync(mask, p) dpx_sim::ballot((mask), !!(p), __FILE__, __LINE__)
#define __match_any_sync(mask, v) dpx_sim::match_any((mask), (v), __FILE__, __LINE__)
#define __any_sync(mask, p) (dpx_sim::ballot((mask), !!(p), __FILE__, __LINE__) != 0)
#define __all_sync(mask, p) (dpx_sim::ballot((mask), !(p), __FILE__, __LINE__) == 0)

inline void __syncwarp(unsigned mask = 0xffffffffu, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    dpx_sim::sync_warp(mask, file, line);
}
template <class T>
inline T __shfl_sync(unsigned mask, T v, int source, int width = 32, const char *file = __builtin_FILE(),
                     int line = __builtin_LINE())
{
    return dpx_sim::shuffle(
        mask, v, width, [=](int) { return source & (width - 1); }, file, line);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, const char *file = __builtin_FILE(),
                         int line = __builtin_LINE())
{
    return dpx_sim::shuffle(
        mask, v, width, [=](int i) { return i ^ bits; }, file, line);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, const char *file = __builtin_FILE(),
                          int line = __builtin_LINE())
{
    return dpx_sim::shuffle(
        mask, v, width, [=](int i) { return i + (int)by; }, file, line);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, const char *file = __builtin_FILE(),
                        int line = __builtin_LINE())
{
    return dpx_sim::shuffle(
        mask, v, width, [=](int i) { return i - (int)by; }, file, line);
}
inline unsigned __activemask() { return 0xffffffffu; }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __trap() { __builtin_trap(); }

template <class T> inline T __ldg(const T *p) { return *p; }
template <class T> inline T __ldcs(const T *p) { return *p; }
template <class T> inline T __ldcg(const T *p) { return *p; }
template <class T> inline void __stcs(T *p, T v) { *p = v; }

/* Integers alone: float atomics would make sums depend on the order of threads. */
#define DPX_SIM_ATOMICS(T)                                                          \
    inline T atomicAdd(T *p, T v) { return dpx_sim::exchange(p, (T)(*p + v)); }     \
    inline T atomicMax(T *p, T v) { return dpx_sim::exchange(p, *p > v ? *p : v); } \
    inline T atomicMin(T *p, T v) { return dpx_sim::exchange(p, *p < v ? *p : v); } \
    inline T atomicOr(T *p, T v) { return dpx_sim::exchange(p, (T)(*p | v)); }      \
    inline T atomicAnd(T *p, T v) { return dpx_sim::exchange(p, (T)(*p & v)); }     \
    inline T atomicExch(T *p, T v) { return dpx_sim::exchange(p, v); }              \
    inline T atomicCAS(T *p, T seen, T v) { return dpx_sim::exchange(p, *p == seen ? v : *p); }
DPX_SIM_ATOMICS(int)
DPX_SIM_ATOMICS(unsigned)
DPX_SIM_ATOMICS(unsigned long long)

/* ---- arithmetic ---- */

#define DPX_SIM_MINMAX(T)                            \
    inline T min(T a, T b) { return a < b ? a : b; } \
    inline T max(T a, T b) { return a > b ? a : b; }
DPX_SIM_MINMAX(int)
DPX_SIM_MINMAX(unsigned)
DPX_SIM_MINMAX(long)
DPX_SIM_MINMAX(unsigned long)
DPX_SIM_MINMAX(long long)
DPX_SIM_MINMAX(unsigned long long)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __fdividef(a, b) ((float)(a) / (float)(b))
#define __frcp_rn(x) (1.0f / (float)(x))
#define __fadd_rn(a, b) ((float)(a) + (float)(b))
#define __fsub_rn(a, b) ((float)(a) - (float)(b))
#define __fmul_rn(a, b) ((float)(a) * (float)(b))
#define __dmul_rn(a, b) ((double)(a) * (double)(b))
#define __fdiv_rn(a, b) ((float)(a) / (float)(b))
#define __fsqrt_rn(a) sqrtf(a)
#define __fmaf_rn(a, b, c) fmaf(a, b, c)
#define __dadd_rn(a, b) ((double)(a) + (double)(b))
#define __dsub_rn(a, b) ((double)(a) - (double)(b))
#define __dmul_rn(a, b) ((double)(a) * (double)(b))
#define __ddiv_rn(a, b) ((double)(a) / (double)(b))
#define __saturatef(x) fminf(fmaxf((x), 0.0f), 1.0f)
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
__extension__ typedef unsigned __int128 dpx_sim_u128;
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((dpx_sim_u128)a * b >> 64);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __float_as_int(float x) { return (int)dpx_sim::to_bits(x); }
inline unsigned __float_as_uint(float x) { return dpx_sim::to_bits(x); }
inline float __int_as_float(int x) { return dpx_sim::from_bits((unsigned)x); }
inline float __uint_as_float(unsigned x) { return dpx_sim::from_bits(x); }
inline long long __double_as_longlong(double x)
{
    long long y;
    memcpy(&y, &x, sizeof y);
    return y;
}
inline double __longlong_as_double(long long x)
{
    double y;
    memcpy(&y, &x, sizeof y);
    return y;
}
inline int __float2int_rn(float x) { return (int)rintf(x); }
inline int __float2int_rz(float x) { return (int)x; }
inline float __int2float_rn(int x) { return (float)x; }
