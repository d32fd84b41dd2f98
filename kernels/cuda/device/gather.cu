/* Reading at indices, and what is written by position: Gather, GatherElements, tuples of GatherND, OneHot, Trilu,
 * fills.
 *
 * Rows are moved in units of up to 16 bytes, four of them in flight per thread: 2 bytes moved for a byte of the result,
 * and the indices.  An index that is not in [-d, d) gives zeros: a kernel cannot fail, and must not read elsewhere. */
#include "index.cuh"

template <class T, class I>
__device__ __forceinline__ void gather_rows(const GatherBox &p, T *y, const T *x, const void *index)
{
    T v[MOVE_PER_THREAD];

#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++) {
        const i64 n = first_unit() + k * MOVE_THREADS;

        if (n < p.n) {
            const I row = Division<I>::of((I)n, p.by_inner, p.inner),
                    outer = Division<I>::of(row, p.by_indices, p.indices);
            const i64 at = index_in(index, p.wide, row - outer * (I)p.indices, p.d);

            v[k] = at < 0 ? T() : x[((i64)outer * p.d + at) * p.inner + (i64)(n - row * (I)p.inner)];
        }
    }
#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++)
        if (first_unit() + k * MOVE_THREADS < p.n)
            y[first_unit() + k * MOVE_THREADS] = v[k];
}

/* y = x with the coordinate along one axis replaced: its stride in x is `step`, its size d. */
template <class T>
__device__ __forceinline__ void gather_elements(const MoveBox &box, T *y, const T *x, const void *index, int wide,
                                                i64 d, i64 step)
{
    T v[MOVE_PER_THREAD];

#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++) {
        const i64 n = first_unit() + k * MOVE_THREADS;

        if (n < box.n) {
            const i64 at = index_in(index, wide, n, d);
            i64 to, from;

            locate<i64>(box, n, &to, &from);
            v[k] = at < 0 ? T() : x[from + at * step];
        }
    }
#pragma unroll
    for (int k = 0; k < MOVE_PER_THREAD; k++)
        if (first_unit() + k * MOVE_THREADS < box.n)
            y[first_unit() + k * MOVE_THREADS] = v[k];
}

/* row[i]: the row that tuple i names; p.rows when it names none. */
KERNEL(tuple_rows, (const TupleBox p, const void *index, i64 *row))
{
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += (i64)gridDim.x * blockDim.x) {
        i64 r = i / p.per_batch;
        bool inside = true;

#pragma unroll
        for (int a = 0; a < MOVE_RANK; a++)
            if (a < p.k) {
                const i64 at = index_in(index, p.wide, i * p.k + a, p.dim[a]);

                inside = inside && at >= 0;
                r = r * p.dim[a] + at;
            }
        row[i] = inside ? r : p.rows;
    }
}

/* ---- OneHot ---- */

/* Reads x[i]; `dtype` is a DType (graph/tensor/dtype.h). */
__device__ __forceinline__ double number_at(const void *x, int dtype, i64 i)
{
    switch (dtype) {
    case 1: return ((const float *)x)[i];
    case 2:
    case 9: return ((const unsigned char *)x)[i];
    case 3: return ((const signed char *)x)[i];
    case 4: return ((const unsigned short *)x)[i];
    case 5: return ((const short *)x)[i];
    case 6: return ((const int *)x)[i];
    case 7: return (double)((const i64 *)x)[i];
    case 10: return to_float(((const f16 *)x)[i]);
    case 11: return ((const double *)x)[i];
    case 12: return ((const u32 *)x)[i];
    case 13: return (double)((const u64 *)x)[i];
    default: return to_float(((const bf16 *)x)[i]);
    }
}

/* y [outer, depth, inner], index [outer, inner], values: off, on. */
template <class T>
__device__ __forceinline__ void one_hot(T *y, const void *index, int dtype, const T *values, i64 n, i64 depth,
                                        i64 inner)
{
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        const i64 row = i / inner, outer = row / depth;
        double at = number_at(index, dtype, outer * inner + (i - row * inner));

        at += at < 0 ? (double)depth : 0;
        y[i] = values[at == (double)(row - outer * depth)];
    }
}

/* ---- Trilu: x may be y ---- */

template <class T>
__device__ __forceinline__ void trilu(T *y, const T *x, i64 n, i64 rows, i64 cols, int upper, const i64 *diagonal)
{
    i64 k = diagonal ? *diagonal : 0;

    k = k < -rows ? -rows : k > cols ? cols : k;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        const i64 line = i / cols, c = i - line * cols, r = line % rows;

        y[i] = (upper ? c >= r + k : c <= r + k) ? x[i] : T();
    }
}

#define READS(W)                                                                                                  \
    KERNEL(gather_##W, (const GatherBox p, UnitOf<W>::type *y, const UnitOf<W>::type *x, const void *index))      \
    {                                                                                                             \
        gather_rows<UnitOf<W>::type, u32>(p, y, x, index);                                                        \
    }                                                                                                             \
    KERNEL(gather_wide_##W, (const GatherBox p, UnitOf<W>::type *y, const UnitOf<W>::type *x, const void *index)) \
    {                                                                                                             \
        gather_rows<UnitOf<W>::type, i64>(p, y, x, index);                                                        \
    }
#define ELEMENTS(W)                                                                                                    \
    KERNEL(gather_elements_##W, (const MoveBox box, UnitOf<W>::type *y, const UnitOf<W>::type *x, const void *index,   \
                                 int wide, i64 d, i64 step))                                                           \
    {                                                                                                                  \
        gather_elements<UnitOf<W>::type>(box, y, x, index, wide, d, step);                                             \
    }                                                                                                                  \
    KERNEL(one_hot_##W, (UnitOf<W>::type * y, const void *index, int dtype, const UnitOf<W>::type *values, i64 n,      \
                         i64 depth, i64 inner))                                                                        \
    {                                                                                                                  \
        one_hot<UnitOf<W>::type>(y, index, dtype, values, n, depth, inner);                                            \
    }                                                                                                                  \
    KERNEL(trilu_##W,                                                                                                  \
           (UnitOf<W>::type * y, const UnitOf<W>::type *x, i64 n, i64 rows, i64 cols, int upper, const i64 *diagonal)) \
    {                                                                                                                  \
        trilu<UnitOf<W>::type>(y, x, n, rows, cols, upper, diagonal);                                                  \
    }                                                                                                                  \
    KERNEL(fill_##W, (UnitOf<W>::type * y, i64 n, u64 bits))                                                           \
    {                                                                                                                  \
        for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)              \
            y[i] = (UnitOf<W>::type)bits;                                                                              \
    }

READS(1)
READS(2)
READS(4)
READS(8)
READS(16)
ELEMENTS(1)
ELEMENTS(2)
ELEMENTS(4)
ELEMENTS(8)
