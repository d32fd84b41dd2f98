/* Running sums along one axis of [outer, n, inner], floats in double, integers modulo 2^64.
 *
 * A row (inner = 1) is a block's: its threads take neighbouring chunks of 16 bytes, from the end in reverse, and a scan
 * over the block gives each the sum before it.  Columns are a thread's each, neighbours by neighbouring threads.  Every
 * element is read and written once.
 *
 * Where columns are few and long they are cut into parts: cumsum_parts adds up each, and a thread has a part of a
 * column, before which it adds up the parts in front of it.  Elements are read twice then, 3/2 of the bytes.  Example,
 * 8 elements in 2 parts: the second thread begins with the sum of elements 0 to 3.
 *
 * Sums are taken in an order that shapes fix. */
#include "line.h"
#include "row.cuh"

enum { COLUMN_AHEAD = 8 }; /* elements that a thread loads at a time */

template <class T> struct Scanned {
    typedef u64 type;
};
template <> struct Scanned<float> {
    typedef double type;
};
template <> struct Scanned<double> {
    typedef double type;
};
template <> struct Scanned<f16> {
    typedef double type;
};
template <> struct Scanned<bf16> {
    typedef double type;
};

template <class T> __device__ __forceinline__ u64 scan_load(T x, u64) { return (u64)x; }
template <class T> __device__ __forceinline__ double scan_load(T x, double) { return to_float(x); }
template <class T> __device__ __forceinline__ T scan_store(u64 x) { return (T)x; }
template <class T> __device__ __forceinline__ T scan_store(double x)
{
    return from_float<T>((typename Accumulator<T>::type)x);
}

/* The sum over the threads before this one; *total: over all, a multiple of a warp. */
template <class A> __device__ __forceinline__ A block_before(A v, A *total)
{
    __shared__ A part[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    A sum = v, before = 0, all = 0;

    for (int o = 1; o < WARP; o *= 2) {
        const A other = __shfl_up_sync(ALL_LANES, sum, o);

        sum += lane >= o ? other : 0;
    }
    __syncthreads(); /* `part` may still be read from the call before */
    if (lane == WARP - 1)
        part[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warps; w++) {
        before = w == warp ? all : before;
        all += part[w];
    }
    *total = all;
    sum = __shfl_up_sync(ALL_LANES, sum, 1);
    return before + (lane ? sum : 0);
}

template <class T> __device__ __forceinline__ void cumsum_row(const T *x, T *y, i64 n, int exclusive, int reverse)
{
    typedef typename Scanned<T>::type A;
    const int V = Chunk<T>::size, offset = row_offset(x);
    const i64 chunks = (n + offset + V - 1) / V;
    A carry = 0;

    for (i64 base = 0; base < chunks; base += blockDim.x) {
        const i64 mine = base + threadIdx.x, at = (reverse ? chunks - 1 - mine : mine) * V - offset;
        Vec<T, V> v = chunk_load<T, V>(x, mine < chunks ? n : 0, at, T());
        A sum = 0, total;

#pragma unroll
        for (int j = 0; j < V; j++)
            sum += at + j >= 0 && at + j < n && mine < chunks ? scan_load(v.at[j], A()) : 0;
        sum = carry + block_before(sum, &total);
#pragma unroll
        for (int k = 0; k < V; k++) {
            const int j = reverse ? V - 1 - k : k;
            const A here = at + j >= 0 && at + j < n ? scan_load(v.at[j], A()) : 0;

            v.at[j] = scan_store<T>(exclusive ? sum : sum + here);
            sum += here;
        }
        chunk_store<T, V>(y, mine < chunks ? n : 0, at, v);
        carry += total;
    }
}

template <class T>
__device__ __forceinline__ void cumsum_rows(const LineBox &p, const T *x, T *y, int exclusive, int reverse)
{
    for (i64 row = blockIdx.x; row < p.outer; row += gridDim.x)
        cumsum_row(x + row * p.n, y + row * p.n, p.n, exclusive, reverse);
}

/* Elements [first, end) of a part of a column, counted in the order in which they are added up. */
struct ColumnPart {
    i64 o, i, part, first, end;
};

/* Part n of outer x parts x inner. */
__device__ __forceinline__ ColumnPart column_part(const LineBox &p, i64 n, i64 parts)
{
    const i64 each = (p.n + parts - 1) / parts, row = n / p.inner;
    ColumnPart c;

    c.i = n - row * p.inner;
    c.o = row / parts;
    c.part = row - c.o * parts;
    c.first = min(p.n, c.part * each);
    c.end = min(p.n, c.first + each);
    return c;
}

/* Elements k to k + COLUMN_AHEAD of the column, 0 from `end` on: loads that do not wait for each other. */
template <class T, class A>
__device__ __forceinline__ void column_load(const LineBox &p, A v[COLUMN_AHEAD], const T *column, i64 k, i64 end,
                                            int reverse)
{
#pragma unroll
    for (int j = 0; j < COLUMN_AHEAD; j++)
        v[j] = k + j < end ? scan_load(column[(reverse ? p.n - 1 - k - j : k + j) * p.inner], A()) : (A)0;
}

/* partial [outer, parts, inner] = sums of the parts. */
template <class T, class A>
__device__ __forceinline__ void cumsum_parts(const LineBox &p, const T *x, A *partial, i64 parts, int reverse)
{
    for (i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x; n < p.outer * parts * p.inner;
         n += (i64)gridDim.x * blockDim.x) {
        const ColumnPart c = column_part(p, n, parts);
        A sum = 0;

        for (i64 k = c.first; k < c.end; k += COLUMN_AHEAD) {
            A v[COLUMN_AHEAD];

            column_load(p, v, x + c.o * p.n * p.inner + c.i, k, c.end, reverse);
#pragma unroll
            for (int j = 0; j < COLUMN_AHEAD; j++)
                sum += v[j];
        }
        partial[n] = sum;
    }
}

/* The sum of the parts before c. */
template <class A>
__device__ __forceinline__ A parts_before(const LineBox &p, const A *partial, const ColumnPart &c, i64 parts)
{
    A sum = 0;

    for (i64 q = 0; q < c.part; q += COLUMN_AHEAD) {
        A v[COLUMN_AHEAD];

#pragma unroll
        for (int j = 0; j < COLUMN_AHEAD; j++)
            v[j] = q + j < c.part ? partial[(c.o * parts + q + j) * p.inner + c.i] : (A)0;
#pragma unroll
        for (int j = 0; j < COLUMN_AHEAD; j++)
            sum += v[j];
    }
    return sum;
}

/* partial is read when there are several parts. */
template <class T>
__device__ __forceinline__ void cumsum_columns(const LineBox &p, const T *x, T *y,
                                               const typename Scanned<T>::type *partial, i64 parts, int exclusive,
                                               int reverse)
{
    typedef typename Scanned<T>::type A;

    for (i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x; n < p.outer * parts * p.inner;
         n += (i64)gridDim.x * blockDim.x) {
        const ColumnPart c = column_part(p, n, parts);
        const i64 from = c.o * p.n * p.inner + c.i;
        A sum = parts_before(p, partial, c, parts);

        for (i64 k = c.first; k < c.end; k += COLUMN_AHEAD) {
            A v[COLUMN_AHEAD];

            column_load(p, v, x + from, k, c.end, reverse);
#pragma unroll
            for (int j = 0; j < COLUMN_AHEAD; j++) {
                if (k + j < c.end)
                    y[from + (reverse ? p.n - 1 - k - j : k + j) * p.inner] =
                        scan_store<T>(exclusive ? sum : sum + v[j]);
                sum += v[j];
            }
        }
    }
}

#define CUMSUM(S, T)                                                                                           \
    KERNEL(cumsum_rows_##S, (const LineBox p, const T *x, T *y, int exclusive, int reverse))                   \
    {                                                                                                          \
        cumsum_rows<T>(p, x, y, exclusive, reverse);                                                           \
    }                                                                                                          \
    KERNEL(cumsum_parts_##S, (const LineBox p, const T *x, Scanned<T>::type *partial, i64 parts, int reverse)) \
    {                                                                                                          \
        cumsum_parts<T>(p, x, partial, parts, reverse);                                                        \
    }                                                                                                          \
    KERNEL(cumsum_columns_##S, (const LineBox p, const T *x, T *y, const Scanned<T>::type *partial, i64 parts, \
                                int exclusive, int reverse))                                                   \
    {                                                                                                          \
        cumsum_columns<T>(p, x, y, partial, parts, exclusive, reverse);                                        \
    }

CUMSUM(f32, float)
CUMSUM(f64, double)
CUMSUM(f16, f16)
CUMSUM(bf16, bf16)
CUMSUM(i8, signed char)
CUMSUM(i16, short)
CUMSUM(i32, int)
CUMSUM(i64, i64)
CUMSUM(u8, unsigned char)
CUMSUM(u16, unsigned short)
CUMSUM(u32, u32)
CUMSUM(u64, u64)
