/* From a number of a unit to where it stands: what the kernels of movement share. */
#pragma once

#include "kernel.cuh"
#include "params.h"

template <class I> struct Division;
template <> struct Division<u32> {
    static __device__ __forceinline__ u32 of(u32 n, const Divisor &by, i64)
    {
        return (__umulhi(n, by.mul) + n) >> by.shift;
    }
};
template <> struct Division<i64> {
    static __device__ __forceinline__ i64 of(i64 n, const Divisor &, i64 d) { return n / d; }
};

/* Units as whole accesses: an unsigned integer of N bytes, or four words. */
template <int BYTES> struct UnitOf;
template <> struct UnitOf<1> {
    typedef unsigned char type;
};
template <> struct UnitOf<2> {
    typedef unsigned short type;
};
template <> struct UnitOf<4> {
    typedef unsigned int type;
};
template <> struct UnitOf<8> {
    typedef unsigned long long type;
};
template <> struct UnitOf<16> {
    typedef Vec<unsigned int, 4> type;
};

/* One access to device memory, where the compiler would write the elements of a structure one by one, as it does with
 * those that come from shared memory or from a loop. */
template <class T, int N> __device__ __forceinline__ void put_vec(T *p, const Vec<T, N> &v)
{
#ifndef DPX_SIM
    if (sizeof v == 16) {
        u32 w[4];

        memcpy(w, &v, 16);
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"(__cvta_generic_to_global(p)), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                     : "memory");
        return;
    }
#endif
    *(Vec<T, N> *)p = v;
}

/* Where unit n of the box stands in the destination and in the source. */
template <class I> __device__ __forceinline__ void locate(const MoveBox &box, I n, i64 *to, i64 *from)
{
    i64 t = 0, f = 0;

#pragma unroll
    for (int k = 0; k < MOVE_RANK; k++) {
        if (k < box.rank) {
            const I rest = Division<I>::of(n, box.by[k], box.dim[k]);
            const i64 at = n - rest * (I)box.dim[k];

            t += at * box.to[k];
            f += at * box.from[k];
            n = rest;
        }
    }
    *to = t;
    *from = f;
}

/* The first of the MOVE_PER_THREAD units, MOVE_THREADS apart, of this thread. */
__device__ __forceinline__ i64 first_unit() { return (i64)blockIdx.x * (MOVE_THREADS * MOVE_PER_THREAD) + threadIdx.x; }

/* Element i of int32 or int64 indices, -1 when it is not in [-d, d). */
__device__ __forceinline__ i64 index_in(const void *index, int wide, i64 i, i64 d)
{
    i64 at = wide ? ((const i64 *)index)[i] : ((const int *)index)[i];

    at += at < 0 ? d : 0;
    return at >= 0 && at < d ? at : -1;
}
