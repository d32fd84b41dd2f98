/* Groups of N elements next to each other, in registers as they are computed: float (double).  The group at `at` is
 * [at, at + N) of n elements; what lies behind the last is 0, and is not stored.  Accesses are of 16 bytes where p and
 * `at` allow it, as they do for groups dealt one after the other along memory. */
#pragma once

#include "row.cuh"

template <class T, class A, int N> __device__ __forceinline__ void load_group(A (&v)[N], const T *p, i64 n, i64 at)
{
    const int V = Chunk<T>::size < N ? Chunk<T>::size : N;

#pragma unroll
    for (int c = 0; c < N; c += V) {
        const Vec<T, V> x = chunk_load<T, V>(p, n, at + c, T());

#pragma unroll
        for (int j = 0; j < V; j++)
            v[c + j] = to_float(x.at[j]);
    }
}

template <class T, class A, int N> __device__ __forceinline__ void store_group(T *p, i64 n, i64 at, const A (&v)[N])
{
    const int V = Chunk<T>::size < N ? Chunk<T>::size : N;

#pragma unroll
    for (int c = 0; c < N; c += V) {
        Vec<T, V> x;

#pragma unroll
        for (int j = 0; j < V; j++)
            x.at[j] = from_float<T>(v[c + j]);
        chunk_store<T, V>(p, n, at + c, x);
    }
}
