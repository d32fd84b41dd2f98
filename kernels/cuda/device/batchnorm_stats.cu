/* Statistics of batch normalisation over data [outer, C, inner] ("first": every image of a channel is a run) or
 * [outer, inner, C] ("last": every thread has V neighbouring
 * channels).
 *
 * Blocks reduce chunks of a channel, then the last block merges the chunks in float64.  A thread reduces four units at
 * a time by their own mean and merges that (Chan, Golub, LeVeque 1979); in float64 for float32 data, whose rows
 * replicas merge, in float32 for 16-bit data, which is coarser than that.  The order is fixed by the shapes alone.  An
 * element of s bytes moves s bytes. */
#include "channel_sums.cuh"

#define ALL 0xffffffffu

/* ---- moments ---- */

/* The type in which moments of T are taken. */
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

/* The moments of the elements that a thread has seen. */
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

/* Elements of chunk k of a channel whose elements are neighbours; `v` of a unit. */
__device__ __forceinline__ double chunk_count(const ChannelBox &p, int k, int v)
{
    const i64 from = k * p.part, to = min(p.units, from + p.part);

    return to > from ? (double)((to - from) * v) : 0;
}

/* Running statistics that are there become old * keep + fresh * take; an unbiased variance is that of n - 1, or 1. */
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
__device__ __forceinline__ void put_moments(A *mean, A *var, const Running<A> &running, i64 c, const Moments &m)
{
    const A fresh_mean = (A)m.mean, fresh_var = m.n > 0 ? (A)(m.m2 / m.n) : 0;
    const A keep = m.n > 0 ? (A)running.keep : (A)1; /* of no samples nothing follows */

    mean[c] = fresh_mean;
    var[c] = fresh_var;
    if (running.next_mean)
        running.next_mean[c] = running.mean[c] * keep + fresh_mean * (A)running.take;
    if (running.next_var)
        running.next_var[c] = running.var[c] * keep + fresh_var * correction(running, m.n) * (A)running.take;
}

/* Where the moments go: the row [2 C + 1] of count, means and sums of squares of differences from them, which
 * replicas merge; or, without a row, mean, variance and count. */
template <class A> struct Outcome {
    double *row;
    A *mean, *var, *count;
    Running<A> running;

    __device__ __forceinline__ void put(const ChannelBox &p, i64 c, const Moments &m) const
    {
        if (row) {
            row[1 + c] = m.mean;
            row[1 + p.channels + c] = m.m2;
        } else {
            put_moments(mean, var, running, c, m);
        }
        if (c == 0 && row)
            row[0] = p.count;
        if (c == 0 && !row)
            *count = (A)p.count;
    }
};

/* ---- a channel's elements are neighbours ---- */

/* Merges the chunks of channel c, part [C][chunks][2]; of a whole block. */
template <class O>
__device__ __forceinline__ void finish_first(const ChannelBox &p, const O &outcome, const double *part, i64 c, int v)
{
    const double *mine = part + c * p.chunks * 2, origin = mine[0];
    Gathered g = { 0, 0, 0 };

    for (int k = threadIdx.x; k < p.chunks; k += NORM_THREADS)
        g.add(chunk_count(p, k, v), mine[2 * k] - origin, mine[2 * k + 1]);
    g.n = block_all<Sum>(g.n);
    g.sum = block_all<Sum>(g.sum);
    g.squares = block_all<Sum>(g.squares);
    if (threadIdx.x == 0)
        outcome.put(p, c, g.moments(origin));
}

/* Chunks count from the end of the data, as rows do (channel_sums.cuh). */
template <class T, int V, class O>
__device__ __forceinline__ void stats_first(const ChannelBox &p, const O &outcome, double *part, u32 *ticket,
                                            const T *x)
{
    typedef typename Precise<T>::type A;
    __shared__ Moments warp_part[NORM_THREADS / 32];
    const i64 c = blockIdx.x % p.channels, chunk = p.chunks - 1 - blockIdx.x / p.channels,
              to = min(p.units, (chunk + 1) * p.part);
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
                    sum += (A)to_float(v[k].at[j]);
        mean = sum / (A)(count * V);
#pragma unroll
        for (int k = 0; k < NORM_GROUP; k++)
            if (k < count)
#pragma unroll
                for (int j = 0; j < V; j++) {
                    const A d = (A)to_float(v[k].at[j]) - mean;

                    squares += d * d;
                }
        seen.add((A)(count * V), mean, squares);
    }
    m = merged_warp(Moments{ (double)seen.n, (double)seen.mean, (double)seen.m2 });
    if (threadIdx.x % 32 == 0)
        warp_part[threadIdx.x / 32] = m;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < NORM_THREADS / 32; w++)
            m = merged(m, warp_part[w]);
        part[(c * p.chunks + chunk) * 2] = m.mean;
        part[(c * p.chunks + chunk) * 2 + 1] = m.m2;
    }
    if (last_block(ticket + c, (u32)p.chunks))
        finish_first(p, outcome, part, c, V);
}

/* ---- the channels are last ---- */

/* a / b with float's fast division, which is within 2 units of the last place. */
__device__ __forceinline__ float share_of(float a, float b) { return __fdividef(a, b); }
__device__ __forceinline__ double share_of(double a, double b) { return a / b; }

/* The moments of the elements that a thread has seen in its V columns. */
template <class A, int V> struct Columns {
    A n, mean[V], m2[V];

    /* Merges `count` numbers of each column: FULL says that all NORM_GROUP of v are there. */
    template <bool FULL> __device__ __forceinline__ void add(const A (&v)[NORM_GROUP][V], int count)
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
    /* The first `columns` lanes of a warp get the moments of all lanes over their columns. */
    __device__ __forceinline__ void merge_lines(int columns)
    {
        for (int o = 16; o >= columns; o /= 2) {
            const A other = __shfl_down_sync(ALL, n, o), all = n + other, share = all > 0 ? other / all : 0;

#pragma unroll
            for (int j = 0; j < V; j++) {
                const A d = __shfl_down_sync(ALL, mean[j], o) - mean[j], squares = __shfl_down_sync(ALL, m2[j], o);

                mean[j] += d * share;
                m2[j] += squares + d * d * n * share;
            }
            n = all;
        }
    }
};

/* One unit of V elements of T. */
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

/* The rows row, row + step ...; what lies beyond the data is read from row 0 and not counted, so that no branch stands
 * between the loads. */
template <bool FULL, class T, int V, class A>
__device__ __forceinline__ void add_rows(const ChannelBox &p, const LastPlace<V> &at, const T *x, u32 row,
                                         Columns<A, V> &seen)
{
    typename Unit<T, V, A>::Loaded loaded[NORM_GROUP];
    A v[NORM_GROUP][V];

#pragma unroll
    for (int k = 0; k < NORM_GROUP; k++)
        loaded[k] = *(const typename Unit<T, V, A>::Loaded *)(x + at.at(p, row + k * at.step));
#pragma unroll
    for (int k = 0; k < NORM_GROUP; k++)
        Unit<T, V, A>::get(v[k], loaded[k]);
    seen.template add<FULL>(v, FULL ? NORM_GROUP : at.count(row));
}

/* Shared memory of a block: first a number for each warp, then two for each thread. */
template <class A, int V, int THREADS> union StatsRoom {
    struct {
        ByWarp<A, V, THREADS> mean, m2;
        A n[THREADS / 32];
    } warp;
    double sums[2][THREADS];
};

/* The chunk's moments of channel t of the block, for t below its channels. */
template <class A, int V, int THREADS>
__device__ __forceinline__ Moments chunk_moments(StatsRoom<A, V, THREADS> &room, int t)
{
    const double origin = (double)room.warp.mean.of(0, t / V, t % V);
    Gathered g = { 0, 0, 0 };

#pragma unroll 8
    for (int w = 0; w < THREADS / 32; w++)
        g.add((double)room.warp.n[w], (double)room.warp.mean.of(w, t / V, t % V) - origin,
              (double)room.warp.m2.of(w, t / V, t % V));
    return g.moments(origin);
}

/* Merges the chunks of the block's channels, part [chunks][2][C]: the threads share each channel's chunks out. */
template <class A, int V, int THREADS, class O>
__device__ __forceinline__ void finish_last(const ChannelBox &p, const LastPlace<V> &at, const O &outcome,
                                            const A *part, StatsRoom<A, V, THREADS> &room)
{
    const int width = at.columns * V, slices = THREADS / width, chunks = gridDim.y;
    const i64 c = at.first + at.t % width;
    const double origin = c < p.channels ? (double)part[c] : 0;
    Gathered g = { 0, 0, 0 };

#pragma unroll 4
    for (int k = at.t / width; k < (c < p.channels ? chunks : 0); k += slices)
        g.add((double)at.of_chunk(k), (double)part[(i64)k * 2 * p.channels + c] - origin,
              (double)part[((i64)k * 2 + 1) * p.channels + c]);
    room.sums[0][at.t] = g.sum;
    room.sums[1][at.t] = g.squares;
    __syncthreads();
    if (at.t >= width || c >= p.channels)
        return;
    g = Gathered{ (double)at.rows, 0, 0 };
    for (int s = 0; s < slices; s++) {
        g.sum += room.sums[0][s * width + at.t];
        g.squares += room.sums[1][s * width + at.t];
    }
    outcome.put(p, c, g.moments(origin));
}

template <class T, int V, int THREADS, class O>
__device__ __forceinline__ void stats_last(const ChannelBox &p, const O &outcome, typename Precise<T>::type *part,
                                           u32 *ticket, const T *x)
{
    typedef typename Precise<T>::type A;
    __shared__ StatsRoom<A, V, THREADS> room;
    const LastPlace<V> at(p);
    const i64 c = at.first + at.t;
    Columns<A, V> seen = {};
    u32 r = at.row;

    if (at.inside) {
        for (; r + (NORM_GROUP - 1) * at.step < at.rows; r += NORM_GROUP * at.step)
            add_rows<true>(p, at, x, r, seen);
        if (r < at.rows)
            add_rows<false>(p, at, x, r, seen);
    }
    seen.merge_lines(at.columns);
    if (at.t % 32 < at.columns)
#pragma unroll
        for (int j = 0; j < V; j++) {
            room.warp.mean.of(at.t / 32, threadIdx.x, j) = seen.mean[j];
            room.warp.m2.of(at.t / 32, threadIdx.x, j) = seen.m2[j];
        }
    if (at.t % 32 == 0)
        room.warp.n[at.t / 32] = seen.n;
    __syncthreads();
    if (at.t < at.columns * V && c < p.channels) {
        const Moments m = chunk_moments<A, V, THREADS>(room, at.t);

        part[(i64)blockIdx.y * 2 * p.channels + c] = (A)m.mean;
        part[((i64)blockIdx.y * 2 + 1) * p.channels + c] = (A)m.m2;
    }
    if (last_block(ticket + blockIdx.x, gridDim.y))
        finish_last<A, V, THREADS>(p, at, outcome, part, room);
}

#define STATS_OF(S, T, V, NAME, THREADS)                                                                              \
    KERNEL(norm_stats_first_##NAME##_##S,                                                                             \
           (const ChannelBox p, const Outcome<Accumulator<T>::type> outcome, double *part, u32 *ticket, const T *x))  \
    {                                                                                                                 \
        stats_first<T, V>(p, outcome, part, ticket, x);                                                               \
    }                                                                                                                 \
    KERNEL_FIT(THREADS, 1, norm_stats_last_##NAME##_##S,                                                              \
               (const ChannelBox p, const Outcome<Accumulator<T>::type> outcome, Precise<T>::type *part, u32 *ticket, \
                const T *x))                                                                                          \
    {                                                                                                                 \
        stats_last<T, V, THREADS>(p, outcome, part, ticket, x);                                                       \
    }
#define STATS(S, T, THREADS) STATS_OF(S, T, 1, 1, THREADS) STATS_OF(S, T, 16 / sizeof(T), v, THREADS)

STATS(f32, float, NORM_SUMS_THREADS)
STATS(f64, double, NORM_SUMS_THREADS)
STATS(f16, f16, NORM_STATS_THREADS)
STATS(bf16, bf16, NORM_STATS_THREADS)

/* ---- over replicas ---- */

/* Rows [R][2 C + 1] merged by the binary tree over row numbers in which a left part is the largest power of two below
 * the number of rows: equal powers meet as soon as both are there, what is left is merged from the right. */
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
        put_moments(mean, var, running, c, top ? stack[0] : Moments{ 0, 0, 0 });
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
