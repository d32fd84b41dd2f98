/* Numbers of any type as keys, 64-bit integers in the same order, and finding the element that comes first. */
#pragma once

#include "row.cuh"

#define KEY_FIRST 0xffffffffffffffffull

/* Greater numbers have greater keys; 0 and -0 the same one.  Infinities stay below KEY_FIRST. */
__device__ __forceinline__ u64 key_of(float x)
{
    const u32 bits = __float_as_uint(x + 0.0f);

    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ u64 key_of(double x)
{
    const u64 bits = (u64)__double_as_longlong(x + 0.0);

    return bits >> 63 ? ~bits : bits | 1ull << 63;
}
__device__ __forceinline__ u64 key_of(f16 x) { return key_of(to_float(x)); }
__device__ __forceinline__ u64 key_of(bf16 x) { return key_of(to_float(x)); }
__device__ __forceinline__ u64 key_of(i64 x) { return (u64)x ^ 1ull << 63; }
__device__ __forceinline__ u64 key_of(int x) { return key_of((i64)x); }
__device__ __forceinline__ u64 key_of(short x) { return key_of((i64)x); }
__device__ __forceinline__ u64 key_of(signed char x) { return key_of((i64)x); }
__device__ __forceinline__ u64 key_of(u64 x) { return x; }
__device__ __forceinline__ u64 key_of(u32 x) { return x; }
__device__ __forceinline__ u64 key_of(unsigned short x) { return x; }
__device__ __forceinline__ u64 key_of(unsigned char x) { return x; }

template <class T> __device__ __forceinline__ bool is_nan(T) { return false; }
__device__ __forceinline__ bool is_nan(float x) { return x != x; }
__device__ __forceinline__ bool is_nan(double x) { return x != x; }
__device__ __forceinline__ bool is_nan(f16 x) { return is_nan(to_float(x)); }
__device__ __forceinline__ bool is_nan(bf16 x) { return is_nan(to_float(x)); }

/* An element: the greater key comes first, of equal ones the greater tie. */
struct Best {
    u64 key, tie;

    __device__ __forceinline__ void take(u64 k, u64 t)
    {
        if (k > key || (k == key && t > tie)) {
            key = k;
            tie = t;
        }
    }
    __device__ __forceinline__ void take(const Best &o) { take(o.key, o.tie); }
};

struct First {
    static __device__ __forceinline__ Best of(Best a, const Best &b)
    {
        a.take(b);
        return a;
    }
};

__device__ __forceinline__ Best lane_xor(const Best &v, int o)
{
    return { __shfl_xor_sync(ALL_LANES, v.key, o), __shfl_xor_sync(ALL_LANES, v.tie, o) };
}
