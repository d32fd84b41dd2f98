/* The norm of many gradients, whether they are finite, and the scale of the loss.
 *
 * Everything is read once, in accesses of 16 bytes.  Values that change from step to step are read from device memory,
 * so a captured step can be replayed. */
#include "math.cuh"
#include "row.cuh"
#include "update.cuh"

/* The gradient's elements that this block works on, and how many of them go in accesses of 16 bytes. */
template <class T> struct Span {
    const T *g;
    i64 from, whole, to;

    __device__ __forceinline__ explicit Span(const UpdateTable &table)
    {
        const int W = Chunk<T>::size;
        const UpdateSpan s(table);

        g = (const T *)s.t.g;
        from = s.from;
        to = s.to;
        whole = on_boundary(g) ? from + (to - from) / W * W : from;
    }
};

/* ---- norm: a block's sum of squares in T, the sum over blocks in double in their order ---- */

template <class T, int W> __device__ __forceinline__ T squares(const T *g, i64 from, i64 to)
{
    T sum = 0;

#pragma unroll 4
    for (i64 i = from + threadIdx.x * W; i < to; i += blockDim.x * W) {
        const Vec<T, W> v = *(const Vec<T, W> *)(g + i);

#pragma unroll
        for (int j = 0; j < W; j++)
            sum += v.at[j] * v.at[j];
    }
    return sum;
}

template <class T> __device__ __forceinline__ void norm_blocks(const UpdateTable &table, double *partial)
{
    const int W = Chunk<T>::size;
    const Span<T> s(table);
    const T sum = block_all<Sum>(squares<T, W>(s.g, s.from, s.whole) + squares<T, 1>(s.g, s.whole, s.to));

    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

/* One block.  by: what the gradients are multiplied by; NULL: 1. */
template <class T>
__device__ __forceinline__ void norm_finish(const double *partial, i64 n, double max_norm, const T *by, T *norm,
                                            T *scale)
{
    const double times = by ? (double)*by : 1.0;
    double sum = 0, factor;

    for (i64 i = threadIdx.x; i < n; i += blockDim.x)
        sum += partial[i];
    sum = sqrt(block_all<Sum>(sum)) * (times < 0 ? -times : times);
    if (threadIdx.x)
        return;
    factor = max_norm / (sum + 1e-6);
    *norm = (T)sum;
    *scale = (T)(times * (factor > 1 ? 1 : factor)); /* NaN stays NaN */
}

/* ---- finite: 1 from a block that holds an element which is not, then from all of them ---- */

/* x - x is 0 for finite x alone. */
template <class T, int W> __device__ __forceinline__ int any_bad(const T *g, i64 from, i64 to)
{
    int bad = 0;

#pragma unroll 4
    for (i64 i = from + threadIdx.x * W; i < to; i += blockDim.x * W) {
        const Vec<T, W> v = *(const Vec<T, W> *)(g + i);

#pragma unroll
        for (int j = 0; j < W; j++)
            bad |= !(v.at[j] - v.at[j] == (T)0);
    }
    return bad;
}

template <class T> __device__ __forceinline__ void finite_blocks(const UpdateTable &table, int *partial)
{
    const int W = Chunk<T>::size;
    const Span<T> s(table);
    const int bad = block_all<Larger>(any_bad<T, W>(s.g, s.from, s.whole) | any_bad<T, 1>(s.g, s.whole, s.to));

    if (threadIdx.x == 0)
        partial[blockIdx.x] = bad;
}

/* One block. */
__device__ __forceinline__ void finite_finish(const int *partial, i64 n, bool *ok)
{
    int bad = 0;

    for (i64 i = threadIdx.x; i < n; i += blockDim.x)
        bad |= partial[i];
    bad = block_all<Larger>(bad);
    if (threadIdx.x == 0)
        *ok = !bad;
}

/* ---- the loss's scale: see LossScaleUpdate, graph/ops/optimizer.c ---- */

/* One thread works.  The bounds are those of normal float32 numbers; results may lie over their inputs. */
template <class T>
__device__ __forceinline__ void loss_scale(const T *scale, const i64 *good, const bool *ok, T *next_scale,
                                           i64 *next_good, double growth, double backoff, i64 interval)
{
    const double least = 1.17549435082228750797e-38, most = 3.40282346638528859812e+38, now = *scale;
    i64 count = *ok ? *good + 1 : 0;
    double next = *ok ? now : now * backoff;

    if (threadIdx.x)
        return;
    if (*ok && count == interval) {
        next = now * growth;
        count = 0;
    }
    *next_scale = (T)(next >= least && next <= most ? next : now);
    *next_good = count;
}

#define OPTIMIZERS(S, T)                                                                                              \
    KERNEL(norm_blocks_##S, (UpdateTable table, double *partial)) { norm_blocks<T>(table, partial); }                 \
    KERNEL_OF(ROW_BLOCK, norm_finish_##S,                                                                             \
              (const double *partial, i64 n, double max_norm, const T *by, T *norm, T *scale))                        \
    {                                                                                                                 \
        norm_finish<T>(partial, n, max_norm, by, norm, scale);                                                        \
    }                                                                                                                 \
    KERNEL(finite_blocks_##S, (UpdateTable table, int *partial)) { finite_blocks<T>(table, partial); }                \
    KERNEL_OF(ROW_BLOCK, finite_finish_##S, (const int *partial, i64 n, bool *ok)) { finite_finish(partial, n, ok); } \
    KERNEL(loss_scale_##S, (const T *scale, const i64 *good, const bool *ok, T *next_scale, i64 *next_good,           \
                            double growth, double backoff, i64 interval))                                             \
    {                                                                                                                 \
        loss_scale<T>(scale, good, ok, next_scale, next_good, growth, backoff, interval);                             \
    }

OPTIMIZERS(f32, float)
OPTIMIZERS(f64, double)
