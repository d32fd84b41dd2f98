/* Batch normalisation by given statistics (batchnorm_stats.cu) and its gradient, over data [outer, C, inner] ("first":
 * every image of a channel is a run) or [outer, inner, C] ("last": every thread has V neighbouring channels).
 *
 * The gradient's sums are taken as the statistics are: chunks of a channel, then the last block merges them.
 *
 * The gradient may be that through a Relu behind the batch-norm: dy counts where the batch-norm's result, computed
 * again from x as it was, is more than 0.
 *
 * Bytes moved per element of s bytes: apply 2 s, gradient's sums 2 s, gradient 3 s; through a Relu no more. */
#include "channel_sums.cuh"
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

/* sums [2, C]: of dy, and of dy (x - mean) / sqrt(var + epsilon). */
template <class T>
__device__ __forceinline__ void put_sums(const ChannelBox &p, void *sums, const void *var, i64 c, const Sums &s)
{
    put_number<T>(sums, p.wide, c, s.a);
    put_number<T>(sums, p.wide, p.channels + c, s.b / sqrt((double)number<T>(var, p.wide, c) + p.epsilon));
}

/* Adds up the chunks of channel c, part [C][chunks][2]; of a whole block. */
template <class T>
__device__ __forceinline__ void finish_first(const ChannelBox &p, void *sums, const double *part, const void *var,
                                             i64 c)
{
    const double *mine = part + c * p.chunks * 2;
    Sums s = { 0, 0 };

    for (int k = threadIdx.x; k < p.chunks; k += NORM_THREADS) {
        s.a += mine[2 * k];
        s.b += mine[2 * k + 1];
    }
    s.a = block_all<Sum>(s.a);
    s.b = block_all<Sum>(s.b);
    if (threadIdx.x == 0)
        put_sums<T>(p, sums, var, c, s);
}

template <class T, int V, class F>
__device__ __forceinline__ void sums_first(const ChannelBox &p, void *out, double *part, u32 *ticket, const void *var,
                                           const typename F::Given &given, const T *x, const T *dy)
{
    typedef typename Accumulator<T>::type A;
    __shared__ Sums warp_part[NORM_THREADS / 32];
    const i64 c = blockIdx.x % p.channels, chunk = p.chunks - 1 - blockIdx.x / p.channels,
              to = min(p.units, (chunk + 1) * p.part);
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
        part[(c * p.chunks + chunk) * 2] = s.a;
        part[(c * p.chunks + chunk) * 2 + 1] = s.b;
    }
    if (last_block(ticket + c, (u32)p.chunks))
        finish_first<T>(p, out, part, var, c);
}

/* The sums of a thread over its V columns. */
template <class A, int V> struct ColumnSums {
    A sum[V], dot[V];

    template <class F> __device__ __forceinline__ void add(const F &f, int j, A x, A dy, bool counts)
    {
        const A centred = x - f.mean, d = f.of(centred, dy), product = d * centred;

        sum[j] += counts ? d : 0;
        dot[j] += counts ? product : 0;
    }
    /* The first `columns` lanes of a warp get the sums of all lanes over their columns. */
    __device__ __forceinline__ void merge_lines(int columns)
    {
        for (int o = 16; o >= columns; o /= 2)
#pragma unroll
            for (int j = 0; j < V; j++) {
                sum[j] += __shfl_down_sync(ALL, sum[j], o);
                dot[j] += __shfl_down_sync(ALL, dot[j], o);
            }
    }
};

/* The rows row, row + step ...; what lies beyond the data is read from row 0 and not added, so that no branch stands
 * between the loads. */
template <bool FULL, class T, int V, class F, class A>
__device__ __forceinline__ void add_rows(const ChannelBox &p, const LastPlace<V> &at, const T *x, const T *dy,
                                         const F (&f)[V], u32 row, ColumnSums<A, V> &seen)
{
    Vec<T, V> vx[NORM_GROUP], vy[NORM_GROUP];
    const int count = FULL ? NORM_GROUP : at.count(row);

#pragma unroll
    for (int k = 0; k < NORM_GROUP; k++) {
        vx[k] = *(const Vec<T, V> *)(x + at.at(p, row + k * at.step));
        vy[k] = *(const Vec<T, V> *)(dy + at.at(p, row + k * at.step));
    }
#pragma unroll
    for (int k = 0; k < NORM_GROUP; k++)
#pragma unroll
        for (int j = 0; j < V; j++)
            seen.add(f[j], j, to_float(vx[k].at[j]), to_float(vy[k].at[j]), FULL || k < count);
}

/* Shared memory of a block: first two numbers of each column for each warp, then two for each thread. */
template <class A, int V, int THREADS> union SumsRoom {
    ByWarp<A, V, THREADS> warp[2];
    double sums[2][THREADS];
};

/* Adds up the chunks of the block's channels, part [chunks][2][C]: the threads share each channel's chunks out. */
template <class T, class A, int V, int THREADS>
__device__ __forceinline__ void finish_last(const ChannelBox &p, const LastPlace<V> &at, void *sums, const void *var,
                                            const double *part, SumsRoom<A, V, THREADS> &room)
{
    const int width = at.columns * V, slices = THREADS / width, chunks = gridDim.y;
    const i64 c = at.first + at.t % width;
    Sums s = { 0, 0 };

#pragma unroll 4
    for (int k = at.t / width; k < (c < p.channels ? chunks : 0); k += slices) {
        s.a += part[(i64)k * 2 * p.channels + c];
        s.b += part[((i64)k * 2 + 1) * p.channels + c];
    }
    room.sums[0][at.t] = s.a;
    room.sums[1][at.t] = s.b;
    __syncthreads();
    if (at.t >= width || c >= p.channels)
        return;
    for (int k = 1; k < slices; k++) {
        s.a += room.sums[0][k * width + at.t];
        s.b += room.sums[1][k * width + at.t];
    }
    put_sums<T>(p, sums, var, c, s);
}

template <class T, int V, class F, int THREADS>
__device__ __forceinline__ void sums_last(const ChannelBox &p, void *out, double *part, u32 *ticket, const void *var,
                                          const typename F::Given &given, const T *x, const T *dy)
{
    typedef typename Accumulator<T>::type A;
    __shared__ SumsRoom<A, V, THREADS> room;
    const LastPlace<V> at(p);
    const i64 c = at.first + at.t;
    ColumnSums<A, V> seen = {};
    u32 r = at.row;
    F f[V];

#pragma unroll
    for (int j = 0; j < V; j++)
        f[j].read(p, given, at.inside ? at.first + threadIdx.x * V + j : 0);
    if (at.inside) {
        for (; r + (NORM_GROUP - 1) * at.step < at.rows; r += NORM_GROUP * at.step)
            add_rows<true>(p, at, x, dy, f, r, seen);
        if (r < at.rows)
            add_rows<false>(p, at, x, dy, f, r, seen);
    }
    seen.merge_lines(at.columns);
    if (at.t % 32 < at.columns)
#pragma unroll
        for (int j = 0; j < V; j++) {
            room.warp[0].of(at.t / 32, threadIdx.x, j) = seen.sum[j];
            room.warp[1].of(at.t / 32, threadIdx.x, j) = seen.dot[j];
        }
    __syncthreads();
    if (at.t < at.columns * V && c < p.channels) {
        Sums s = { 0, 0 };

        for (int w = 0; w < THREADS / 32; w++) {
            s.a += (double)room.warp[0].of(w, at.t / V, at.t % V);
            s.b += (double)room.warp[1].of(w, at.t / V, at.t % V);
        }
        part[(i64)blockIdx.y * 2 * p.channels + c] = s.a;
        part[((i64)blockIdx.y * 2 + 1) * p.channels + c] = s.b;
    }
    if (last_block(ticket + blockIdx.x, gridDim.y))
        finish_last<T, A, V, THREADS>(p, at, out, var, part, room);
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

/* p.units counts rows. */
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

#define SUMS_PARAMS(F, T)                                                                                     \
    (const ChannelBox p, void *out, double *part, u32 *ticket, const void *var, const F::Given g, const T *x, \
     const T *dy)
#define SUMS(S, T, V, NAME, KIND, F)                                                         \
    KERNEL(norm_sums##KIND##_first_##NAME##_##S, SUMS_PARAMS(F, T))                          \
    {                                                                                        \
        sums_first<T, V, F>(p, out, part, ticket, var, g, x, dy);                            \
    }                                                                                        \
    KERNEL_FIT(NORM_SUMS_THREADS, 1, norm_sums##KIND##_last_##NAME##_##S, SUMS_PARAMS(F, T)) \
    {                                                                                        \
        sums_last<T, V, F, NORM_SUMS_THREADS>(p, out, part, ticket, var, g, x, dy);          \
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
#define NORM(S, T)    \
    NORMS(S, T, 1, 1) \
    NORMS(S, T, 16 / sizeof(T), v)

NORM(f32, float)
NORM(f64, double)
NORM(f16, f16)
NORM(bf16, bf16)
