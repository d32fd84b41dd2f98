/* Batch normalisation over data [outer, C, inner] ("first": every image of a channel is a run) or [outer, inner, C] ("last":
 * every thread has V neighbouring channels).
 *
 * Statistics take two stages: blocks reduce chunks of a channel, then a warp merges the chunks of each channel in float64.
 * A thread reduces four units at a time by their own mean and merges that (Chan, Golub, LeVeque 1979), of differences from the
 * channel's first element; in float64 for float32 data, whose rows replicas merge, in float32 for 16-bit data, which is coarser
 * than that.  The order is fixed by the shapes alone.
 *
 * Bytes moved per element of s bytes: statistics s, apply 2 s, gradient's sums 2 s, gradient 3 s. */
#include "index.cuh"
#include "math.cuh"

#define ALL 0xffffffffu

/* ---- numbers of a channel ---- */

template <class T> __device__ __forceinline__ typename Accumulator<T>::type number(const void *p, int wide, i64 i)
{
    typedef typename Accumulator<T>::type A;

    return wide ? ((const A *)p)[i] : to_float(((const T *)p)[i]);
}

template <class T> __device__ __forceinline__ void put_number(void *p, int wide, i64 i, double v)
{
    typedef typename Accumulator<T>::type A;

    if (wide)
        ((A *)p)[i] = (A)v;
    else
        ((T *)p)[i] = from_float<T>((A)v);
}

/* ---- moments ---- */

/* What moments of T are taken in. */
template <class T> struct Precise { typedef float type; };
template <> struct Precise<float> { typedef double type; };
template <> struct Precise<double> { typedef double type; };

struct Moments { double n, mean, m2; };

__device__ __forceinline__ Moments merged(const Moments &a, const Moments &b)
{
    const double n = a.n + b.n, d = b.mean - a.mean, share = n > 0 ? b.n / n : 0;

    return Moments{ n, a.mean + d * share, a.m2 + b.m2 + d * d * a.n * share };
}

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
        const Moments other = { __shfl_down_sync(ALL, m.n, o), __shfl_down_sync(ALL, m.mean, o), __shfl_down_sync(ALL, m.m2, o) };

        m = merged(m, other);
    }
    return m;
}

/* The row of BatchNormStats from chunks: part [chunks][2][C] (mean, m2), each of `sizes[k]` elements as the chunks are cut. */
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
                const u32 n = (u32)(u + k * NORM_THREADS), outer = Division<u32>::of(n, p.by_run, 0), i = n - outer * p.by_run.d;

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

/* Merges the first `count` of v into mean and m2 of n rows, which are of differences from shift. */
template <class T, int V, class A>
__device__ __forceinline__ void merge_rows(const Vec<T, V> (&v)[NORM_GROUP], int count, const A (&shift)[V], A (&mean)[V], A (&m2)[V], A &n)
{
    const A share = (A)count / (n + (A)count);

#pragma unroll
    for (int j = 0; j < V; j++) {
        A sum = 0, own, d;

#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            sum += k < count ? (A)to_float(v[k].at[j]) - shift[j] : 0;
        own = sum / (A)count;
#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++) {
            d = k < count ? (A)to_float(v[k].at[j]) - shift[j] - own : 0;
            m2[j] += d * d;
        }
        d = own - mean[j];
        mean[j] += d * share;
        m2[j] += d * d * n * share;
    }
    n += (A)count;
}

/* Blocks of (columns, rows) threads; blockIdx.x counts columns of V channels, blockIdx.y chunks of rows. */
template <class T, int V> __device__ __forceinline__ void stats_last(const ChannelBox &p, double *part, const T *x)
{
    typedef typename Precise<T>::type A;
    __shared__ A means[NORM_THREADS * V], squares[NORM_THREADS * V];
    __shared__ A counts[NORM_THREADS];
    const int column = threadIdx.x, line = threadIdx.y, columns = blockDim.x, lines = blockDim.y;
    const i64 c = ((i64)blockIdx.x * columns + column) * V, from = blockIdx.y * p.part, to = min(p.units, from + p.part);
    const bool inside = c < p.channels;
    A shift[V], mean[V] = {}, m2[V] = {}, n = 0;

    if (inside) {
        const Vec<T, V> first = *(const Vec<T, V> *)(x + c);

#pragma unroll
        for (int j = 0; j < V; j++)
            shift[j] = (A)to_float(first.at[j]);
    }
    for (i64 row = from + line; inside && row < to; row += lines * NORM_GROUP) {
        Vec<T, V> v[NORM_GROUP];
        int count = 0;

#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (row + k * lines < to) {
                v[k] = *(const Vec<T, V> *)(x + (row + k * lines) * p.channels + c);
                count++;
            }
        merge_rows(v, count, shift, mean, m2, n);
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
        Moments m = { 0, 0, 0 };

        for (int l = 0; l < lines; l++)
            m = merged(m, Moments{ (double)counts[l * columns + column], (double)origin + (double)means[(l * V + k) * columns + column],
                                   (double)squares[(l * V + k) * columns + column] });
        part[(i64)blockIdx.y * 2 * p.channels + c + k] = m.mean;
        part[((i64)blockIdx.y * 2 + 1) * p.channels + c + k] = m.m2;
    }
}

/* row [2 C + 1]; a warp for each channel; `v` elements a unit. */
KERNEL(norm_stats_finish, (const ChannelBox p, double *row, const double *part, int v))
{
    const i64 c = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    Moments m = { 0, 0, 0 };

    for (int k = threadIdx.x % 32; c < p.channels && k < p.chunks; k += 32)
        m = merged(m, Moments{ chunk_count(p, k, v), part[(i64)k * 2 * p.channels + c], part[((i64)k * 2 + 1) * p.channels + c] });
    m = merged_warp(m);
    if (c < p.channels && threadIdx.x % 32 == 0) {
        row[1 + c] = m.mean;
        row[1 + p.channels + c] = m.m2;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        row[0] = p.count;
}

/* Rows [R][2 C + 1] merged by the binary tree over row numbers in which a left part is the largest power of two below the
 * number of rows: equal powers meet as soon as both are there, what is left is merged from the right. */
template <class A> __device__ __forceinline__ void merge_rows(const double *rows, i64 n_rows, i64 channels, A *mean, A *var, A *count)
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
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        double all = 0;

        for (i64 r = 0; r < n_rows; r++)
            all += rows[r * (2 * channels + 1)];
        *count = (A)all;
    }
}

/* ---- the gradient's sums: of dy, and of dy (x - mean) ---- */

struct Sums { double a, b; };

template <class T, int V> __device__ __forceinline__ void sums_first(const ChannelBox &p, double *part, const T *x, const T *dy, const void *means)
{
    typedef typename Accumulator<T>::type A;
    __shared__ Sums warp_part[NORM_THREADS / 32];
    const i64 c = blockIdx.x % p.channels, chunk = blockIdx.x / p.channels, to = min(p.units, (chunk + 1) * p.part);
    const A mean = number<T>(means, p.wide, c);
    A sum = 0, dot = 0;
    Sums s;

    for (i64 u = chunk * p.part + threadIdx.x; u < to; u += NORM_THREADS * NORM_GROUP) {
        Vec<T, V> vx[NORM_GROUP], vy[NORM_GROUP];

#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (u + k * NORM_THREADS < to) {
                const u32 n = (u32)(u + k * NORM_THREADS), outer = Division<u32>::of(n, p.by_run, 0), i = n - outer * p.by_run.d;
                const i64 at = (outer * p.channels + c) * p.inner + (i64)i * V;

                vx[k] = *(const Vec<T, V> *)(x + at);
                vy[k] = *(const Vec<T, V> *)(dy + at);
            }
#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (u + k * NORM_THREADS < to)
#pragma unroll
                for (int j = 0; j < V; j++) {
                    sum += to_float(vy[k].at[j]);
                    dot += to_float(vy[k].at[j]) * (to_float(vx[k].at[j]) - mean);
                }
    }
    s = Sums{ (double)sum, (double)dot };
    for (int o = 16; o; o /= 2) {
        s.a += __shfl_down_sync(ALL, s.a, o);
        s.b += __shfl_down_sync(ALL, s.b, o);
    }
    if (threadIdx.x % 32 == 0)
        warp_part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < NORM_THREADS / 32; w++) {
            s.a += warp_part[w].a;
            s.b += warp_part[w].b;
        }
        part[chunk * 2 * p.channels + c] = s.a;
        part[(chunk * 2 + 1) * p.channels + c] = s.b;
    }
}

template <class T, int V> __device__ __forceinline__ void sums_last(const ChannelBox &p, double *part, const T *x, const T *dy, const void *means)
{
    typedef typename Accumulator<T>::type A;
    __shared__ A sums[NORM_THREADS * V], dots[NORM_THREADS * V];
    const int column = threadIdx.x, line = threadIdx.y, columns = blockDim.x, lines = blockDim.y;
    const i64 c = ((i64)blockIdx.x * columns + column) * V, from = blockIdx.y * p.part, to = min(p.units, from + p.part);
    const bool inside = c < p.channels;
    A mean[V] = {}, sum[V] = {}, dot[V] = {};

#pragma unroll
    for (int j = 0; j < V; j++)
        mean[j] = inside ? number<T>(means, p.wide, c + j) : 0;
    for (i64 row = from + line; inside && row < to; row += lines * NORM_GROUP) {
        Vec<T, V> vx[NORM_GROUP], vy[NORM_GROUP];

#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (row + k * lines < to) {
                vx[k] = *(const Vec<T, V> *)(x + (row + k * lines) * p.channels + c);
                vy[k] = *(const Vec<T, V> *)(dy + (row + k * lines) * p.channels + c);
            }
#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (row + k * lines < to)
#pragma unroll
                for (int j = 0; j < V; j++) {
                    sum[j] += to_float(vy[k].at[j]);
                    dot[j] += to_float(vy[k].at[j]) * (to_float(vx[k].at[j]) - mean[j]);
                }
    }
#pragma unroll
    for (int j = 0; j < V; j++) {
        sums[(line * V + j) * columns + column] = sum[j];
        dots[(line * V + j) * columns + column] = dot[j];
    }
    __syncthreads();
    for (int k = line; inside && k < V; k += lines) {
        double a = 0, b = 0;

        for (int l = 0; l < lines; l++) {
            a += (double)sums[(l * V + k) * columns + column];
            b += (double)dots[(l * V + k) * columns + column];
        }
        part[(i64)blockIdx.y * 2 * p.channels + c + k] = a;
        part[((i64)blockIdx.y * 2 + 1) * p.channels + c + k] = b;
    }
}

/* sums [2, C]: of dy, and of dy (x - mean) / sqrt(var + epsilon). */
template <class T> __device__ __forceinline__ void sums_finish(const ChannelBox &p, void *sums, const double *part, const void *var)
{
    const i64 c = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    double a = 0, b = 0;

    for (int k = threadIdx.x % 32; c < p.channels && k < p.chunks; k += 32) {
        a += part[(i64)k * 2 * p.channels + c];
        b += part[((i64)k * 2 + 1) * p.channels + c];
    }
    for (int o = 16; o; o /= 2) {
        a += __shfl_down_sync(ALL, a, o);
        b += __shfl_down_sync(ALL, b, o);
    }
    if (c < p.channels && threadIdx.x % 32 == 0) {
        put_number<T>(sums, p.wide, c, a);
        put_number<T>(sums, p.wide, p.channels + c, b / sqrt((double)number<T>(var, p.wide, c) + p.epsilon));
    }
}

/* ---- element by element ---- */

/* y = (x - mean) k + bias, k = scale / sqrt(var + epsilon). */
template <class T> struct Apply {
    typedef typename Accumulator<T>::type A;
    enum { INPUTS = 1 };
    struct Given { const void *mean, *var, *scale, *bias; };
    A mean, k, bias;

    __device__ __forceinline__ void read(const ChannelBox &p, const Given &g, i64 c)
    {
        mean = number<T>(g.mean, p.wide, c);
        k = number<T>(g.scale, p.wide, c) * inverse_root(number<T>(g.var, p.wide, c) + (A)p.epsilon);
        bias = number<T>(g.bias, p.wide, c);
    }
    __device__ __forceinline__ A of(A x, A) const { return (x - mean) * k + bias; }
};

/* dx = k (dy - a - (x - mean) b): a = sum(dy) / count, b = sum(dy xhat) / (count sqrt(var + epsilon)). */
template <class T> struct GradInput {
    typedef typename Accumulator<T>::type A;
    enum { INPUTS = 2 };
    struct Given { const void *mean, *var, *scale, *sums, *count; };
    A mean, k, a, b;

    __device__ __forceinline__ void read(const ChannelBox &p, const Given &g, i64 c)
    {
        const A inv = inverse_root(number<T>(g.var, p.wide, c) + (A)p.epsilon), count = number<T>(g.count, p.wide, 0);

        mean = number<T>(g.mean, p.wide, c);
        k = number<T>(g.scale, p.wide, c) * inv;
        a = number<T>(g.sums, p.wide, c) / count;
        b = inv * number<T>(g.sums, p.wide, p.channels + c) / count;
    }
    __device__ __forceinline__ A of(A x, A dy) const { return k * (dy - a - (x - mean) * b); }
};

template <class T, int V, class F> __device__ __forceinline__ Vec<T, V> each(const F *f, int step, const Vec<T, V> &x, const Vec<T, V> &dy)
{
    Vec<T, V> y;

#pragma unroll
    for (int j = 0; j < V; j++)
        y.at[j] = from_float<T>(f[j * step].of(to_float(x.at[j]), to_float(dy.at[j])));
    return y;
}

/* p.units counts all units. */
template <class T, int V, class F>
__device__ __forceinline__ void map_first(const ChannelBox &p, const typename F::Given &given, T *y, const T *x, const T *dy)
{
    Vec<T, V> vx[NORM_GROUP], vy[NORM_GROUP];
    const i64 first = (i64)blockIdx.x * (NORM_THREADS * NORM_GROUP) + threadIdx.x;

#pragma unroll
    for (int k = 0; k < NORM_GROUP; k++)
        if (first + k * NORM_THREADS < p.units) {
            vx[k] = ((const Vec<T, V> *)x)[first + k * NORM_THREADS];
            if (F::INPUTS == 2)
                vy[k] = ((const Vec<T, V> *)dy)[first + k * NORM_THREADS];
        }
#pragma unroll
    for (int k = 0; k < NORM_GROUP; k++)
        if (first + k * NORM_THREADS < p.units) {
            const u32 run = Division<u32>::of((u32)(first + k * NORM_THREADS), p.by_run, 0);
            F f;

            f.read(p, given, run - Division<u32>::of(run, p.by_channels, 0) * p.by_channels.d);
            ((Vec<T, V> *)y)[first + k * NORM_THREADS] = each<T, V>(&f, 0, vx[k], F::INPUTS == 2 ? vy[k] : vx[k]);
        }
}

/* As stats_last: p.units counts rows. */
template <class T, int V, class F>
__device__ __forceinline__ void map_last(const ChannelBox &p, const typename F::Given &given, T *y, const T *x, const T *dy)
{
    const i64 c = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * V, from = blockIdx.y * p.part, to = min(p.units, from + p.part);
    const int lines = blockDim.y;
    F f[V];

    if (c >= p.channels)
        return;
#pragma unroll
    for (int j = 0; j < V; j++)
        f[j].read(p, given, c + j);
    for (i64 row = from + threadIdx.y; row < to; row += lines * NORM_GROUP) {
        Vec<T, V> vx[NORM_GROUP], vy[NORM_GROUP];

#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (row + k * lines < to) {
                vx[k] = *(const Vec<T, V> *)(x + (row + k * lines) * p.channels + c);
                if (F::INPUTS == 2)
                    vy[k] = *(const Vec<T, V> *)(dy + (row + k * lines) * p.channels + c);
            }
#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (row + k * lines < to)
                *(Vec<T, V> *)(y + (row + k * lines) * p.channels + c) = each<T, V>(f, 1, vx[k], F::INPUTS == 2 ? vy[k] : vx[k]);
    }
}

#define NORMS(S, T, V, NAME)                                                                                                    \
    KERNEL(norm_stats_first_##NAME##_##S, (const ChannelBox p, double *part, const T *x)) { stats_first<T, V>(p, part, x); }    \
    KERNEL(norm_stats_last_##NAME##_##S, (const ChannelBox p, double *part, const T *x)) { stats_last<T, V>(p, part, x); }      \
    KERNEL(norm_sums_first_##NAME##_##S, (const ChannelBox p, double *part, const T *x, const T *dy, const void *mean))         \
    { sums_first<T, V>(p, part, x, dy, mean); }                                                                                 \
    KERNEL(norm_sums_last_##NAME##_##S, (const ChannelBox p, double *part, const T *x, const T *dy, const void *mean))          \
    { sums_last<T, V>(p, part, x, dy, mean); }                                                                                  \
    KERNEL(norm_apply_first_##NAME##_##S, (const ChannelBox p, const Apply<T>::Given g, T *y, const T *x))                      \
    { map_first<T, V, Apply<T>>(p, g, y, x, x); }                                                                               \
    KERNEL(norm_apply_last_##NAME##_##S, (const ChannelBox p, const Apply<T>::Given g, T *y, const T *x))                       \
    { map_last<T, V, Apply<T>>(p, g, y, x, x); }                                                                                \
    KERNEL(norm_input_first_##NAME##_##S, (const ChannelBox p, const GradInput<T>::Given g, T *dx, const T *x, const T *dy))    \
    { map_first<T, V, GradInput<T>>(p, g, dx, x, dy); }                                                                         \
    KERNEL(norm_input_last_##NAME##_##S, (const ChannelBox p, const GradInput<T>::Given g, T *dx, const T *x, const T *dy))     \
    { map_last<T, V, GradInput<T>>(p, g, dx, x, dy); }
#define NORM(S, T)                                                                                                                          \
    NORMS(S, T, 1, 1)                                                                                                                       \
    NORMS(S, T, 16 / sizeof(T), v)                                                                                                          \
    KERNEL(norm_sums_finish_##S, (const ChannelBox p, void *sums, const double *part, const void *var)) { sums_finish<T>(p, sums, part, var); }

NORM(f32, float)
NORM(f64, double)
NORM(f16, f16)
NORM(bf16, bf16)

KERNEL(norm_merge_f32, (const double *rows, i64 n, i64 channels, float *mean, float *var, float *count))
{
    merge_rows<float>(rows, n, channels, mean, var, count);
}
KERNEL(norm_merge_f64, (const double *rows, i64 n, i64 channels, double *mean, double *var, double *count))
{
    merge_rows<double>(rows, n, channels, mean, var, count);
}
