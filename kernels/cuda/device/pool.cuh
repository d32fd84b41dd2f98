/* Code shared by kernels of pooling: how elements are compared and added, which result or element a thread has, and the
 * share of a window's elements in its average. */
#pragma once

#include "index.cuh"

/* How T is compared and added. */
template <class T> struct Pooled {
    typedef typename Accumulator<T>::type type;
    static __device__ __forceinline__ type read(T x) { return to_float(x); }
    static __device__ __forceinline__ type lowest() { return (type)-INFINITY; }
    static __device__ __forceinline__ T write(type x) { return from_float<T>(x); }
};
#define POOLED_INT(T, LOWEST)                                             \
    template <> struct Pooled<T> {                                        \
        typedef int type;                                                 \
        static __device__ __forceinline__ int read(T x) { return x; }     \
        static __device__ __forceinline__ int lowest() { return LOWEST; } \
        static __device__ __forceinline__ T write(int x) { return (T)x; } \
    };
POOLED_INT(signed char, -128)
POOLED_INT(unsigned char, 0)

/* The place that a thread writes: unit `trail` of position `at` of plane `lead`. */
struct Place {
    i64 lead;
    int at[3];
    u32 trail;
};

__device__ __forceinline__ Place place_of(const PoolBox &p, u32 n, const int size[3], const Divisor by[3])
{
    Place w;
    u32 rest = Division<u32>::of(n, p.by_trail, 0);

    w.trail = n - rest * p.by_trail.d;
#pragma unroll
    for (int a = 2; a >= 0; a--) {
        const u32 next = Division<u32>::of(rest, by[a], 0);

        w.at[a] = (int)(rest - next * (u32)size[a]);
        rest = next;
    }
    w.lead = rest;
    return w;
}

/* The unit in front of a plane's first position; the step between positions is p.trail. */
__device__ __forceinline__ i64 plane_of(const PoolBox &p, const Place &w, const int size[3])
{
    return w.lead * ((i64)size[0] * size[1] * size[2]) * p.trail + w.trail;
}

/* How many elements the window at o counts along an axis. */
__device__ __forceinline__ int counted(const PoolBox &p, int a, int o)
{
    const int start = o * p.stride[a] - p.pad[a], d = p.dilation[a];
    const int room = p.in[a] + (p.include_pad ? p.pad_end[a] : 0) - start;
    const int low = p.include_pad || start >= 0 ? 0 : (d - 1 - start) / d, high = room <= 0 ? 0 : (room - 1) / d + 1;

    return max(0, min(high, p.kernel[a]) - low);
}

template <class A> __device__ __forceinline__ A share_of(const PoolBox &p, const int o[3])
{
    const A count = (A)counted(p, 0, o[0]) * (A)counted(p, 1, o[1]) * (A)counted(p, 2, o[2]);

    return count > 0 ? 1 / count : 0;
}
