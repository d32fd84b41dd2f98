/* Batch normalisation by given statistics (batchnorm_stats.cu) and its gradient, over data [outer, C, inner] ("first":
 * every image of a channel is a run) or [outer, inner, C] ("last": every thread has V neighbouring channels).
 *
 * The gradient's sums take two stages, as the statistics do: chunks of a channel, then a warp for each channel.
 *
 * The gradient may be that through a Relu behind the batch-norm: dy counts where the batch-norm's result, computed
 * again from x as it was, is more than 0.
 *
 * Bytes moved per element of s bytes: apply 2 s, gradient's sums 2 s, gradient 3 s; through a Relu no more. */
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

/* ---- where dy counts ---- */

template <class T> struct Everywhere {
    typedef typename Accumulator<T>::type A;
    struct Given {
        const void *mean;
    };
    A mean;

    __device__ __forceinline__ void read(const ChannelBox &p, const Given &g, i64 c)
    {
        mean = number<T>(g.mean, p.wide, c);
    }
    __device__ __forceinline__ A of(A, A dy) const { return dy; }
};

/* y = (x - mean) k + bias, k = scale / sqrt(var + epsilon). */
template <class T> struct Affine {
    typedef typename Accumulator<T>::type A;
    struct Given {
        const void *mean, *var, *scale, *bias;
    };
    A mean, k, bias;

    __device__ __forceinline__ void read(const ChannelBox &p, const Given &g, i64 c)
    {
        mean = number<T>(g.mean, p.wide, c);
        k = number<T>(g.scale, p.wide, c) * inverse_root(number<T>(g.var, p.wide, c) + (A)p.epsilon);
        bias = number<T>(g.bias, p.wide, c);
    }
};

/* Where y > 0. */
template <class T> struct Positive : Affine<T> {
    typedef typename Affine<T>::A A;

    __device__ __forceinline__ A of(A centred, A dy) const { return centred * this->k + this->bias > 0 ? dy : 0; }
};

/* ---- the gradient's sums: of dy, and of dy (x - mean) ---- */

struct Sums {
    double a, b;
};

template <class T, int V, class F>
__device__ __forceinline__ void sums_first(const ChannelBox &p, double *part, const T *x, const T *dy,
                                           const typename F::Given &given)
{
    typedef typename Accumulator<T>::type A;
    __shared__ Sums warp_part[NORM_THREADS / 32];
    const i64 c = blockIdx.x % p.channels, chunk = blockIdx.x / p.channels, to = min(p.units, (chunk + 1) * p.part);
    A sum = 0, dot = 0;
    Sums s;
    F f;

    f.read(p, given, c);
    for (i64 u = chunk * p.part + threadIdx.x; u < to; u += NORM_THREADS * NORM_GROUP) {
        Vec<T, V> vx[NORM_GROUP], vy[NORM_GROUP];

#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (u + k * NORM_THREADS < to) {
                const u32 n = (u32)(u + k * NORM_THREADS), outer = Division<u32>::of(n, p.by_run, 0),
                          i = n - outer * p.by_run.d;
                const i64 at = (outer * p.channels + c) * p.inner + (i64)i * V;

                vx[k] = *(const Vec<T, V> *)(x + at);
                vy[k] = *(const Vec<T, V> *)(dy + at);
            }
#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (u + k * NORM_THREADS < to)
#pragma unroll
                for (int j = 0; j < V; j++) {
                    const A centred = to_float(vx[k].at[j]) - f.mean, d = f.of(centred, to_float(vy[k].at[j]));

                    sum += d;
                    dot += d * centred;
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

template <class T, int V, class F>
__device__ __forceinline__ void sums_last(const ChannelBox &p, double *part, const T *x, const T *dy,
                                          const typename F::Given &given)
{
    typedef typename Accumulator<T>::type A;
    __shared__ A sums[NORM_THREADS * V], dots[NORM_THREADS * V];
    const int column = threadIdx.x, line = threadIdx.y, columns = blockDim.x, lines = blockDim.y;
    const i64 c = ((i64)blockIdx.x * columns + column) * V, from = blockIdx.y * p.part,
              to = min(p.units, from + p.part);
    const bool inside = c < p.channels;
    A sum[V] = {}, dot[V] = {};
    F f[V];

#pragma unroll
    for (int j = 0; j < V; j++)
        f[j].read(p, given, inside ? c + j : 0);
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
                    const A centred = to_float(vx[k].at[j]) - f[j].mean, d = f[j].of(centred, to_float(vy[k].at[j]));

                    sum[j] += d;
                    dot[j] += d * centred;
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
template <class T>
__device__ __forceinline__ void sums_finish(const ChannelBox &p, void *sums, const double *part, const void *var)
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

template <class T> struct Apply : Affine<T> {
    typedef typename Affine<T>::A A;
    enum { INPUTS = 1 };

    __device__ __forceinline__ A of(A x, A) const { return (x - this->mean) * this->k + this->bias; }
};

/* dx = k (dy - a - (x - mean) b): a = sum(dy) / count, b = sum(dy xhat) / (count sqrt(var + epsilon)).  `bias` is read
 * where dy is that of a Relu. */
template <class T, bool RELU> struct GradInput {
    typedef typename Accumulator<T>::type A;
    enum { INPUTS = 2 };
    struct Given {
        const void *mean, *var, *scale, *sums, *count, *bias;
        void *dscale, *dbias;
    };
    A mean, k, a, b, bias;

    __device__ __forceinline__ void read(const ChannelBox &p, const Given &g, i64 c)
    {
        const A inv = inverse_root(number<T>(g.var, p.wide, c) + (A)p.epsilon), count = number<T>(g.count, p.wide, 0);

        mean = number<T>(g.mean, p.wide, c);
        k = number<T>(g.scale, p.wide, c) * inv;
        a = number<T>(g.sums, p.wide, c) / count;
        b = inv * number<T>(g.sums, p.wide, p.channels + c) / count;
        bias = RELU ? number<T>(g.bias, p.wide, c) : 0;
    }
    __device__ __forceinline__ A of(A x, A dy) const
    {
        const A centred = x - mean, d = !RELU || centred * k + bias > 0 ? dy : 0;

        return k * (d - a - centred * b);
    }
};

/* dscale and dbias, where they are wanted: the sums of dy xhat and of dy. */
template <class T>
__device__ __forceinline__ void put_params(const ChannelBox &p, const void *sums, void *dscale, void *dbias)
{
    const i64 block = (i64)blockIdx.y * gridDim.x + blockIdx.x, threads = (i64)blockDim.x * blockDim.y;
    const i64 first = block * threads + threadIdx.y * blockDim.x + threadIdx.x;

    for (i64 c = first; (dscale || dbias) && c < p.channels; c += threads * gridDim.x * gridDim.y) {
        if (dscale)
            put_number<T>(dscale, p.wide, c, number<T>(sums, p.wide, p.channels + c));
        if (dbias)
            put_number<T>(dbias, p.wide, c, number<T>(sums, p.wide, c));
    }
}

template <class T, int V, class F>
__device__ __forceinline__ Vec<T, V> each(const F *f, int step, const Vec<T, V> &x, const Vec<T, V> &dy)
{
    Vec<T, V> y;

#pragma unroll
    for (int j = 0; j < V; j++)
        y.at[j] = from_float<T>(f[j * step].of(to_float(x.at[j]), to_float(dy.at[j])));
    return y;
}

/* p.units counts all units. */
template <class T, int V, class F>
__device__ __forceinline__ void map_first(const ChannelBox &p, const typename F::Given &given, T *y, const T *x,
                                          const T *dy)
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
__device__ __forceinline__ void map_last(const ChannelBox &p, const typename F::Given &given, T *y, const T *x,
                                         const T *dy)
{
    const i64 c = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * V, from = blockIdx.y * p.part,
              to = min(p.units, from + p.part);
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
                *(Vec<T, V> *)(y + (row + k * lines) * p.channels + c) =
                    each<T, V>(f, 1, vx[k], F::INPUTS == 2 ? vy[k] : vx[k]);
    }
}

#define SUMS(S, T, V, NAME, KIND, F)                                                      \
    KERNEL(norm_sums##KIND##_first_##NAME##_##S,                                          \
           (const ChannelBox p, double *part, const F::Given g, const T *x, const T *dy)) \
    {                                                                                     \
        sums_first<T, V, F>(p, part, x, dy, g);                                           \
    }                                                                                     \
    KERNEL(norm_sums##KIND##_last_##NAME##_##S,                                           \
           (const ChannelBox p, double *part, const F::Given g, const T *x, const T *dy)) \
    {                                                                                     \
        sums_last<T, V, F>(p, part, x, dy, g);                                            \
    }
#define INPUT(S, T, V, NAME, KIND, RELU)                                                            \
    KERNEL(norm_input##KIND##_first_##NAME##_##S,                                                   \
           (const ChannelBox p, const GradInput<T, RELU>::Given g, T *dx, const T *x, const T *dy)) \
    {                                                                                               \
        put_params<T>(p, g.sums, g.dscale, g.dbias);                                                \
        map_first<T, V, GradInput<T, RELU>>(p, g, dx, x, dy);                                       \
    }                                                                                               \
    KERNEL(norm_input##KIND##_last_##NAME##_##S,                                                    \
           (const ChannelBox p, const GradInput<T, RELU>::Given g, T *dx, const T *x, const T *dy)) \
    {                                                                                               \
        put_params<T>(p, g.sums, g.dscale, g.dbias);                                                \
        map_last<T, V, GradInput<T, RELU>>(p, g, dx, x, dy);                                        \
    }
#define NORMS(S, T, V, NAME)                                                                               \
    SUMS(S, T, V, NAME, , Everywhere<T>)                                                                   \
    SUMS(S, T, V, NAME, _relu, Positive<T>)                                                                \
    KERNEL(norm_apply_first_##NAME##_##S, (const ChannelBox p, const Apply<T>::Given g, T *y, const T *x)) \
    {                                                                                                      \
        map_first<T, V, Apply<T>>(p, g, y, x, x);                                                          \
    }                                                                                                      \
    KERNEL(norm_apply_last_##NAME##_##S, (const ChannelBox p, const Apply<T>::Given g, T *y, const T *x))  \
    {                                                                                                      \
        map_last<T, V, Apply<T>>(p, g, y, x, x);                                                           \
    }                                                                                                      \
    INPUT(S, T, V, NAME, , false)                                                                          \
    INPUT(S, T, V, NAME, _relu, true)
#define NORM(S, T)                                                                                      \
    NORMS(S, T, 1, 1)                                                                                   \
    NORMS(S, T, 16 / sizeof(T), v)                                                                      \
    KERNEL(norm_sums_finish_##S, (const ChannelBox p, void *sums, const double *part, const void *var)) \
    {                                                                                                   \
        sums_finish<T>(p, sums, part, var);                                                             \
    }

NORM(f32, float)
NORM(f64, double)
NORM(f16, f16)
NORM(bf16, bf16)
