/* Statistics of batch normalisation over data [outer, C, inner] ("first": every image of a channel is a run) or [outer,
 * inner, C]
 * ("last": every thread has V neighbouring channels).
 *
 * They take two stages: blocks reduce chunks of a channel, then a warp merges the chunks of each channel in float64.
 * A thread reduces four units at a time by their own mean and merges that (Chan, Golub, LeVeque 1979), of differences
 * from the channel's first element; in float64 for float32 data, whose rows replicas merge, in float32 for 16-bit data,
 * which is coarser than that.  The order is fixed by the shapes alone.  An element of s bytes moves s bytes. */
#include "index.cuh"
#include "row.cuh"

#define ALL 0xffffffffu

/* ---- moments ---- */

/* What moments of T are taken in. */
template <class T> struct Precise {
    typedef float type;
};
template <> struct Precise<float> {
    typedef double type;
};
template <> struct Precise<double> {
    typedef double type;
};

struct Moments {
    double n, mean, m2;
};

__device__ __forceinline__ Moments merged(const Moments &a, const Moments &b)
{
    const double n = a.n + b.n, d = b.mean - a.mean, share = n > 0 ? b.n / n : 0;

    return Moments{ n, a.mean + d * share, a.m2 + b.m2 + d * d * a.n * share };
}

/* Moments of parts, summed up as differences from an origin near their means: one division for all of them. */
struct Gathered {
    double n, sum, squares; /* sum of n mean; sum of m2 + n mean^2 */

    __device__ __forceinline__ void add(double count, double mean, double m2)
    {
        n += count;
        sum += count * mean;
        squares += m2 + count * mean * mean;
    }
    __device__ __forceinline__ Moments moments(double origin) const
    {
        const double mean = n > 0 ? sum / n : 0, m2 = squares - sum * mean;

        return Moments{ n, origin + mean, m2 < 0 ? 0 : m2 };
    }
};

/* What a thread knows of the elements it has seen. */
template <class A> struct Seen {
    A n, mean, m2;

    __device__ __forceinline__ void add(A count, A group_mean, A group_m2)
    {
        const A d = group_mean - mean, share = count / (n + count);

        mean += d * share;
        m2 += group_m2 + d * d * n * share;
        n += count;
    }
};

__device__ __forceinline__ Moments merged_warp(Moments m)
{
    for (int o = 16; o; o /= 2) {
        const Moments other = { __shfl_down_sync(ALL, m.n, o), __shfl_down_sync(ALL, m.mean, o),
                                __shfl_down_sync(ALL, m.m2, o) };

        m = merged(m, other);
    }
    return m;
}

/* Elements of chunk k of a channel; `v` of a unit. */
__device__ __forceinline__ double chunk_count(const ChannelBox &p, int k, int v)
{
    const i64 from = k * p.part, to = min(p.units, from + p.part);

    return to > from ? (double)((to - from) * v) : 0;
}

template <class T, int V> __device__ __forceinline__ void stats_first(const ChannelBox &p, double *part, const T *x)
{
    typedef typename Precise<T>::type A;
    __shared__ Moments warp_part[NORM_THREADS / 32];
    const i64 c = blockIdx.x % p.channels, chunk = blockIdx.x / p.channels, to = min(p.units, (chunk + 1) * p.part);
    const A shift = (A)to_float(x[c * p.inner]);
    Seen<A> seen = { 0, 0, 0 };
    Moments m;

    for (i64 u = chunk * p.part + threadIdx.x; u < to; u += NORM_THREADS * NORM_GROUP) {
        Vec<T, V> v[NORM_GROUP];
        A sum = 0, squares = 0, mean;
        int count = 0;

#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (u + k * NORM_THREADS < to) {
                const u32 n = (u32)(u + k * NORM_THREADS), outer = Division<u32>::of(n, p.by_run, 0),
                          i = n - outer * p.by_run.d;

                v[k] = *(const Vec<T, V> *)(x + (outer * p.channels + c) * p.inner + (i64)i * V);
                count++;
            }
#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (k < count)
#pragma unroll
                for (int j = 0; j < V; j++)
                    sum += (A)to_float(v[k].at[j]) - shift;
        mean = sum / (A)(count * V);
#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (k < count)
#pragma unroll
                for (int j = 0; j < V; j++) {
                    const A d = (A)to_float(v[k].at[j]) - shift - mean;

                    squares += d * d;
                }
        seen.add((A)(count * V), mean, squares);
    }
    m = merged_warp(Moments{ (double)seen.n, (double)shift + (double)seen.mean, (double)seen.m2 });
    if (threadIdx.x % 32 == 0)
        warp_part[threadIdx.x / 32] = m;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < NORM_THREADS / 32; w++)
            m = merged(m, warp_part[w]);
        part[chunk * 2 * p.channels + c] = m.mean;
        part[(chunk * 2 + 1) * p.channels + c] = m.m2;
    }
}

/* a / b with float's fast division, which is within 2 units of the last place. */
__device__ __forceinline__ float share_of(float a, float b) { return __fdividef(a, b); }
__device__ __forceinline__ double share_of(double a, double b) { return a / b; }

/* Merges `count` differences from the shift in each of V columns into mean and m2 of n rows: FULL says that all
 * NORM_GROUP of v are there. */
template <bool FULL, int V, class A>
__device__ __forceinline__ void merge_rows(const A (&v)[NORM_GROUP][V], int count, A (&mean)[V], A (&m2)[V], A &n)
{
    const A all = FULL ? (A)NORM_GROUP : (A)count, share = share_of(all, n + all);

#pragma unroll
    for (int j = 0; j < V; j++) {
        A sum = 0, own, d;

#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            sum += FULL || k < count ? v[k][j] : 0;
        own = FULL ? sum * (A)(1.0 / NORM_GROUP) : sum / all;
#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++) {
            d = FULL || k < count ? v[k][j] - own : 0;
            m2[j] += d * d;
        }
        d = own - mean[j];
        mean[j] += d * share;
        m2[j] += d * d * n * share;
    }
    n += all;
}

/* What differs from the shift in one unit of V elements of T. */
template <class T, int V, class A> struct Unit {
    typedef Vec<T, V> Loaded;
    static __device__ __forceinline__ void get(A (&y)[V], const Loaded &v)
    {
#pragma unroll
        for (int j = 0; j < V; j++)
            y[j] = (A)to_float(v.at[j]);
    }
};
template <> struct Unit<f16, 8, float> : Packed<f16> {
    typedef Words Loaded;
};
template <> struct Unit<bf16, 8, float> : Packed<bf16> {
    typedef Words Loaded;
};

/* The group of rows from `row` on, `lines` apart, below `to`; x points at the thread's first column of row 0. */
template <bool FULL, class T, int V, class A>
__device__ __forceinline__ void add_group(const ChannelBox &p, const T *x, int row, int to, int lines,
                                          const A (&shift)[V], A (&mean)[V], A (&m2)[V], A &n)
{
    typename Unit<T, V, A>::Loaded loaded[NORM_GROUP];
    A v[NORM_GROUP][V];
    int count = 0;

#pragma unroll
    for (int k = 0; k < NORM_GROUP; k++)
        if (FULL || row + k * lines < to) {
            loaded[k] = *(const typename Unit<T, V, A>::Loaded *)(x + (row + k * lines) * p.channels);
            count++;
        }
#pragma unroll
    for (int k = 0; k < NORM_GROUP; k++) {
        Unit<T, V, A>::get(v[k], loaded[k]);
#pragma unroll
        for (int j = 0; j < V; j++)
            v[k][j] -= shift[j];
    }
    merge_rows<FULL>(v, count, mean, m2, n);
}

/* Blocks of (columns, rows) threads; blockIdx.x counts columns of V channels, blockIdx.y chunks of rows. */
template <class T, int V> __device__ __forceinline__ void stats_last(const ChannelBox &p, double *part, const T *x)
{
    typedef typename Precise<T>::type A;
    __shared__ A means[NORM_THREADS * V], squares[NORM_THREADS * V];
    __shared__ A counts[NORM_THREADS];
    const int column = threadIdx.x, line = threadIdx.y, columns = blockDim.x, lines = blockDim.y;
    const i64 c = ((i64)blockIdx.x * columns + column) * V, from = blockIdx.y * p.part,
              to = min(p.units, from + p.part);
    const bool inside = c < p.channels;
    A shift[V], mean[V] = {}, m2[V] = {}, n = 0;

    if (inside) {
        const Vec<T, V> first = *(const Vec<T, V> *)(x + c);

#pragma unroll
        for (int j = 0; j < V; j++)
            shift[j] = (A)to_float(first.at[j]);
    }
    if (inside) {
        int row = (int)from + line;

        for (; row + (NORM_GROUP - 1) * lines < to; row += lines * NORM_GROUP)
            add_group<true>(p, x + c, row, (int)to, lines, shift, mean, m2, n);
        if (row < to)
            add_group<false>(p, x + c, row, (int)to, lines, shift, mean, m2, n);
    }
#pragma unroll
    for (int j = 0; j < V; j++) {
        means[(line * V + j) * columns + column] = mean[j];
        squares[(line * V + j) * columns + column] = m2[j];
    }
    counts[line * columns + column] = n;
    __syncthreads();
    for (int k = line; inside && k < V; k += lines) {
        const A origin = (A)to_float(x[c + k]);
        Gathered g = { 0, 0, 0 };

        for (int l = 0; l < lines; l++)
            g.add((double)counts[l * columns + column], (double)means[(l * V + k) * columns + column],
                  (double)squares[(l * V + k) * columns + column]);
        const Moments m = g.moments((double)origin);

        part[(i64)blockIdx.y * 2 * p.channels + c + k] = m.mean;
        part[((i64)blockIdx.y * 2 + 1) * p.channels + c + k] = m.m2;
    }
}

#define STATS_OF(S, T, V, NAME)                                                           \
    KERNEL(norm_stats_first_##NAME##_##S, (const ChannelBox p, double *part, const T *x)) \
    {                                                                                     \
        stats_first<T, V>(p, part, x);                                                    \
    }                                                                                     \
    KERNEL(norm_stats_last_##NAME##_##S, (const ChannelBox p, double *part, const T *x))  \
    {                                                                                     \
        stats_last<T, V>(p, part, x);                                                     \
    }
#define STATS(S, T) STATS_OF(S, T, 1, 1) STATS_OF(S, T, 16 / sizeof(T), v)

STATS(f32, float)
STATS(f64, double)
STATS(f16, f16)
STATS(bf16, bf16)

/* The row [2 C + 1] of BatchNormStats from chunks: part [chunks][2][C] (mean, m2).  A warp for each channel; `v`
 * elements a unit. */
KERNEL(norm_stats_finish, (const ChannelBox p, double *row, const double *part, int v))
{
    const i64 c = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const double origin = c < p.channels ? part[c] : 0;
    Gathered g = { 0, 0, 0 };
    Moments m;

#pragma unroll 4
    for (int k = threadIdx.x % 32; k < (c < p.channels ? p.chunks : 0); k += 32)
        g.add(chunk_count(p, k, v), part[(i64)k * 2 * p.channels + c] - origin,
              part[((i64)k * 2 + 1) * p.channels + c]);
    g.n = lanes_all<Sum>(g.n, 32);
    g.sum = lanes_all<Sum>(g.sum, 32);
    g.squares = lanes_all<Sum>(g.squares, 32);
    m = g.moments(origin);
    if (c < p.channels && threadIdx.x % 32 == 0) {
        row[1 + c] = m.mean;
        row[1 + p.channels + c] = m.m2;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        row[0] = p.count;
}

/* ---- over replicas ---- */

/* Rows [R][2 C + 1] merged by the binary tree over row numbers in which a left part is the largest power of two below
 * the number of rows: equal powers meet as soon as both are there, what is left is merged from the right.  Running
 * statistics that are there become old * keep + fresh * take; an unbiased variance is that of n - 1, or 1. */
template <class A> struct Running {
    const A *mean, *var;
    A *next_mean, *next_var;
    double keep, take;
    bool unbiased;
};

template <class A> __device__ __forceinline__ A correction(const Running<A> &running, double n)
{
    return running.unbiased ? (A)(n / fmax(n - 1, 1.0)) : (A)1;
}

template <class A>
__device__ __forceinline__ void merge_replicas(const double *rows, i64 n_rows, i64 channels, A *mean, A *var, A *count,
                                               const Running<A> &running)
{
    for (i64 c = (i64)blockIdx.x * blockDim.x + threadIdx.x; c < channels; c += (i64)gridDim.x * blockDim.x) {
        Moments stack[32];
        int top = 0;

        for (i64 r = 0; r < n_rows; r++) {
            const double *row = rows + r * (2 * channels + 1);
            Moments m = { row[0], row[1 + c], row[1 + channels + c] };

            for (i64 ones = r; ones & 1; ones >>= 1)
                m = merged(stack[--top], m);
            stack[top++] = m;
        }
        for (; top > 1; top--)
            stack[top - 2] = merged(stack[top - 2], stack[top - 1]);
        mean[c] = top ? (A)stack[0].mean : 0;
        var[c] = top && stack[0].n > 0 ? (A)(stack[0].m2 / stack[0].n) : 0;
        const A keep = top && stack[0].n > 0 ? (A)running.keep : (A)1; /* of no samples nothing follows */
        if (running.next_mean)
            running.next_mean[c] = running.mean[c] * keep + mean[c] * (A)running.take;
        if (running.next_var)
            running.next_var[c] =
                running.var[c] * keep + var[c] * correction(running, top ? stack[0].n : 0) * (A)running.take;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        double all = 0;

        for (i64 r = 0; r < n_rows; r++)
            all += rows[r * (2 * channels + 1)];
        *count = (A)all;
    }
}

#define MERGE(S, A)                                                                                        \
    KERNEL(norm_merge_##S,                                                                                 \
           (const double *rows, i64 n, i64 channels, A *mean, A *var, A *count, const Running<A> running)) \
    {                                                                                                      \
        merge_replicas<A>(rows, n, channels, mean, var, count, running);                                   \
    }
MERGE(f32, float)
MERGE(f64, double)
