/* Pooling over windows of 2 x 2 or 3 x 3 positions at stride 2, padded by at most one position in front: what most
 * image models pool by.  Results have the bits that pool.cu computes: elements are compared and added in the same
 * order.
 *
 * All loads of a thread are independent of each other and stand before their first use, without a branch between them:
 * of positions outside the data others are read instead, and counted as what changes neither a maximum nor a sum.  With
 * the channels last (pool_last) a thread has a vector of channels: forward of one result, backward of 2 x 2 elements,
 * which share the up to four windows that cover them.  By rows (pool_rows) it has a strip: forward V / 2 results of one
 * line, whose windows cover V columns and a neighbour; backward V elements of two lines.  Lines of results have half as
 * many elements as lines of the input there, so that a strip's results and its columns both lie on vector boundaries.
 *
 * Example, 3 x 3 with one position of padding: element 2q - 1 of an axis is position 0 of window q and position 2 of
 * window q - 1; element 2q is position 1 of window q.
 *
 * Bytes moved are those of pool.cu's header; a byte for each result is written where the places of maxima are wanted.
 */
#include "pool.cuh"

/* ---- maxima and averages ---- */

/* Takes e at position `place` if it is larger than *max or the first NaN. */
template <class A> __device__ __forceinline__ void take_larger(A *max, int *where, A e, int place)
{
    const bool takes = !(e <= *max) & (*max == *max); /* without branches */

    *max = takes ? e : *max;
    *where = takes ? place : *where;
}

/* The first position of the window that is inside, or -1: where the maximum is as long as nothing is larger than the
 * value outside.  At most one line and one column of a window lie in front of the data. */
template <int K> __device__ __forceinline__ int first_inside(const bool (&row)[K], bool first_column, bool any_column)
{
    return any_column && (row[0] || row[1]) ? (row[0] ? 0 : K) + (first_column ? 0 : 1) : -1;
}

/* The value outside the data: the lowest for a maximum, 0 for a sum. */
template <class T, int N, bool MAX> __device__ __forceinline__ Vec<T, N> outside()
{
    Vec<T, N> v;

#pragma unroll
    for (int j = 0; j < N; j++)
        v.at[j] = Pooled<T>::write(MAX ? Pooled<T>::lowest() : 0);
    return v;
}

/* v where it is inside, in words of 4 bytes. */
template <class T, int N, bool MAX> __device__ __forceinline__ void keep_inside(Vec<T, N> &v, bool inside)
{
    const Vec<T, N> fill = outside<T, N, MAX>();
    u32 w[sizeof v / 4], f[sizeof v / 4];

    memcpy(w, &v, sizeof v);
    memcpy(f, &fill, sizeof v);
#pragma unroll
    for (int k = 0; k < (int)(sizeof v / 4); k++)
        w[k] = inside ? w[k] : f[k];
    memcpy(&v, w, sizeof v);
}

/* How many elements the window at o counts along an axis. */
template <int K> __device__ __forceinline__ int counted_of(const PoolBox &p, int a, int o)
{
    const int start = o * 2 - p.pad[a], room = p.in[a] + (p.include_pad ? p.pad_end[a] : 0) - start;

    return max(0, min(room, K) - (p.include_pad || start >= 0 ? 0 : -start));
}

/* Computes share_of; most windows count all of their elements, and need no division. */
template <class A, int K> __device__ __forceinline__ A usual_share(const PoolBox &p, int o1, int o2)
{
    const int count = counted_of<K>(p, 1, o1) * counted_of<K>(p, 2, o2);

    return count == K * K ? (A)1 / (A)(K * K) : count > 0 ? (A)1 / (A)count : (A)0;
}

template <class T, int V, int K, bool MAX>
__device__ __forceinline__ void pool_last(const PoolBox &p, Vec<T, V> *y, const Vec<T, V> *x,
                                          Vec<unsigned char, V> *places)
{
    typedef typename Pooled<T>::type A;
    const i64 n = (i64)blockIdx.x * POOL_THREADS + threadIdx.x;
    Vec<unsigned char, V> place;
    Vec<T, V> v[K * K], out;
    bool row[K], column[K];
    int top, left, first;
    A share = 0;
    Place w;

    if (n >= p.n)
        return;
    w = place_of(p, (u32)n, p.out, p.by_out);
    top = w.at[1] * 2 - p.pad[1];
    left = w.at[2] * 2 - p.pad[2];
    x += plane_of(p, w, p.in);
#pragma unroll
    for (int k = 0; k < K; k++) {
        row[k] = top + k >= 0 && top + k < p.in[1];
        column[k] = left + k >= 0 && left + k < p.in[2];
    }
#pragma unroll
    for (int k = 0; k < K * K; k++) {
        const int r = max(0, min(top + k / K, p.in[1] - 1)), c = max(0, min(left + k % K, p.in[2] - 1));

        v[k] = x[(i64)(r * p.in[2] + c) * p.trail];
    }
#pragma unroll
    for (int k = 0; k < K * K; k++)
        keep_inside<T, V, MAX>(v[k], row[k / K] & column[k % K]);
    first = first_inside<K>(row, column[0], column[0] || column[1]);
    if (!MAX)
        share = usual_share<A, K>(p, w.at[1], w.at[2]);
#pragma unroll
    for (int j = 0; j < V; j++) {
        A all = MAX ? Pooled<T>::lowest() : 0;
        int where = first;

#pragma unroll
        for (int k = 0; k < K * K; k++)
            if (MAX)
                take_larger(&all, &where, Pooled<T>::read(v[k].at[j]), k);
            else
                all += Pooled<T>::read(v[k].at[j]);
        out.at[j] = Pooled<T>::write(MAX ? all : all * share);
        place.at[j] = (unsigned char)where; /* -1 becomes 255, which no position is */
    }
    if (y)
        y[n] = out;
    if (places)
        places[n] = place;
}

/* Columns [V c - PAD, V c - PAD + V] of a line of the input. */
template <class T, int V> struct Strip {
    Vec<T, V> v;
    T neighbour;

    template <bool PAD> __device__ __forceinline__ void read(const T *line, int c, bool has_neighbour)
    {
        v = ((const Vec<T, V> *)line)[c];
        neighbour = line[!has_neighbour ? c * V : PAD ? c * V - 1 : c * V + V];
    }
    template <bool PAD, bool MAX> __device__ __forceinline__ void spread(T e[V + 1], bool row, bool has_neighbour)
    {
        keep_inside<T, V, MAX>(v, row);
        e[PAD ? 0 : V] = row & has_neighbour ? neighbour : outside<T, 1, MAX>().at[0];
#pragma unroll
        for (int j = 0; j < V; j++)
            e[j + PAD] = v.at[j];
    }
};

/* p.out[2] counts strips. */
template <class T, int V, int K, bool MAX, bool PAD>
__device__ __forceinline__ void pool_strip(const PoolBox &p, Vec<T, V / 2> *y, const T *x,
                                           Vec<unsigned char, V / 2> *places)
{
    typedef typename Pooled<T>::type A;
    const i64 n = (i64)blockIdx.x * POOL_THREADS + threadIdx.x;
    Vec<unsigned char, V / 2> place;
    Vec<T, V / 2> out;
    Strip<T, V> strip[K];
    T e[K][V + 1];
    bool row[K], neighbour;
    Place w;
    int top;

    if (n >= p.n)
        return;
    w = place_of(p, (u32)n, p.out, p.by_out);
    top = w.at[1] * 2 - p.pad[1];
    neighbour = PAD ? w.at[2] > 0 : K > 2 && w.at[2] + 1 < p.out[2];
    x += w.lead * ((i64)p.in[1] * p.in[2]);
#pragma unroll
    for (int k = 0; k < K; k++) {
        row[k] = top + k >= 0 && top + k < p.in[1];
        strip[k].template read<PAD>(x + (i64)max(0, min(top + k, p.in[1] - 1)) * p.in[2], w.at[2], neighbour);
    }
#pragma unroll
    for (int k = 0; k < K; k++)
        strip[k].template spread<PAD, MAX>(e[k], row[k], neighbour);
#pragma unroll
    for (int t = 0; t < V / 2; t++) {
        A all = MAX ? Pooled<T>::lowest() : 0;
        int where = first_inside<K>(row, t > 0 || !PAD || neighbour, true);

#pragma unroll
        for (int k = 0; k < K * K; k++)
            if (MAX)
                take_larger(&all, &where, Pooled<T>::read(e[k / K][2 * t + k % K]), k);
            else
                all += Pooled<T>::read(e[k / K][2 * t + k % K]);
        out.at[t] = Pooled<T>::write(MAX ? all : all * usual_share<A, K>(p, w.at[1], w.at[2] * (V / 2) + t));
        place.at[t] = (unsigned char)where;
    }
    if (y)
        y[n] = out;
    if (places)
        places[n] = place;
}

template <class T, int V, int K, bool MAX>
__device__ __forceinline__ void pool_rows(const PoolBox &p, Vec<T, V / 2> *y, const T *x,
                                          Vec<unsigned char, V / 2> *places)
{
    if (p.pad[2])
        pool_strip<T, V, K, MAX, true>(p, y, x, places);
    else
        pool_strip<T, V, K, MAX, false>(p, y, x, places);
}

/* ---- gradients ---- */

/* Adds the part of a window's gradient d that the element at position `here` gets: all of it where the maximum is there
 * (MAX), otherwise its share. */
template <bool MAX, class A> __device__ __forceinline__ void collect(A *sum, A d, int there, int here, A share)
{
    if (!MAX)
        *sum += d * share;
    else if (there == here)
        *sum += d;
}

/* p.by_in[1], p.by_in[2]: blocks of 2 x 2 elements, of which the block (q, r) covers windows (q, r) and, where K is 3,
 * those before them. */
template <class T, int V, int K, bool MAX>
__device__ __forceinline__ void pool_grad_last(const PoolBox &p, Vec<T, V> *dx, const Vec<T, V> *dy,
                                               const Vec<unsigned char, V> *places)
{
    typedef typename Pooled<T>::type A;
    const int B = K > 2 ? 2 : 1, blocks[3] = { 1, (int)p.by_in[1].d, (int)p.by_in[2].d };
    const i64 n = (i64)blockIdx.x * POOL_THREADS + threadIdx.x;
    Vec<unsigned char, V> there[B * B];
    Vec<T, V> d[B * B];
    A share[B * B];
    bool known[B * B];
    Place w;

    if (n >= p.n)
        return;
    w = place_of(p, (u32)n, blocks, p.by_in);
    dy += plane_of(p, w, p.out);
    places += MAX ? plane_of(p, w, p.out) : 0;
    dx += plane_of(p, w, p.in);
#pragma unroll
    for (int b = 0; b < B * B; b++) {
        const int o[3] = { 0, w.at[1] - b / B, w.at[2] - b % B };
        const i64 at = (i64)(o[1] * p.out[2] + o[2]) * p.trail;

        known[b] = o[1] >= 0 && o[1] < p.out[1] && o[2] >= 0 && o[2] < p.out[2];
        if (known[b]) {
            d[b] = dy[at];
            if (MAX)
                there[b] = places[at];
            else
                share[b] = usual_share<A, K>(p, o[1], o[2]);
        }
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int x1 = 2 * w.at[1] + k / 2 - p.pad[1], x2 = 2 * w.at[2] + k % 2 - p.pad[2];
        Vec<T, V> out;

        if (x1 < 0 || x1 >= p.in[1] || x2 < 0 || x2 >= p.in[2])
            continue;
#pragma unroll
        for (int j = 0; j < V; j++) {
            A sum = 0;

#pragma unroll
            for (int b = B * B - 1; b >= 0; b--) {
                const int i1 = k / 2 + 2 * (b / B), i2 = k % 2 + 2 * (b % B);

                if (i1 < K && i2 < K && known[b])
                    collect<MAX>(&sum, Pooled<T>::read(d[b].at[j]), MAX ? there[b].at[j] : 0, i1 * K + i2,
                                 MAX ? (A)0 : share[b]);
            }
            out.at[j] = Pooled<T>::write(sum);
        }
        dx[(i64)(x1 * p.in[2] + x2) * p.trail] = out;
    }
}

/* V / 2 + 1 elements of a line of results from column V / 2 c - !PAD on, the neighbour among them where it is inside.
 */
template <class T, int V, bool PAD>
__device__ __forceinline__ void read_results(T e[V / 2 + 1], const T *line, int c, bool neighbour)
{
    const Vec<T, V / 2> v = ((const Vec<T, V / 2> *)line)[c];

    if (neighbour)
        e[PAD ? V / 2 : 0] = line[PAD ? c * (V / 2) + V / 2 : c * (V / 2) - 1];
#pragma unroll
    for (int j = 0; j < V / 2; j++)
        e[j + !PAD] = v.at[j];
}

/* p.by_in[1]: pairs of lines; p.by_in[2]: strips of V columns. */
template <class T, int V, int K, bool MAX, bool PAD>
__device__ __forceinline__ void pool_grad_strip(const PoolBox &p, T *dx, const T *dy, const unsigned char *places)
{
    typedef typename Pooled<T>::type A;
    const int B = K > 2 ? 2 : 1, W = V / 2 + 1, blocks[3] = { 1, (int)p.by_in[1].d, (int)p.by_in[2].d };
    const i64 n = (i64)blockIdx.x * POOL_THREADS + threadIdx.x;
    unsigned char there[B][W];
    T d[B][W];
    A share[B][W];
    bool row[B], neighbour;
    Place w;

    if (n >= p.n)
        return;
    w = place_of(p, (u32)n, blocks, p.by_in);
    neighbour = PAD ? w.at[2] + 1 < blocks[2] : K > 2 && w.at[2] > 0;
#pragma unroll
    for (int b = 0; b < B; b++) {
        const int o1 = w.at[1] - b;
        const i64 line = (w.lead * p.out[1] + o1) * p.out[2];

        row[b] = o1 >= 0 && o1 < p.out[1];
        if (!row[b])
            continue;
        read_results<T, V, PAD>(d[b], dy + line, w.at[2], neighbour);
        if (MAX)
            read_results<unsigned char, V, PAD>(there[b], places + line, w.at[2], neighbour);
#pragma unroll
        for (int t = 0; !MAX && t < W; t++)
            share[b][t] = usual_share<A, K>(p, o1, w.at[2] * (V / 2) + t - !PAD);
    }
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const int x1 = 2 * w.at[1] + k - p.pad[1];
        Vec<T, V> out;

        if (x1 < 0 || x1 >= p.in[1])
            continue;
#pragma unroll
        for (int j = 0; j < V; j++) {
            A sum = 0;

#pragma unroll
            for (int b = B - 1; b >= 0; b--)
#pragma unroll
                for (int t = 0; t < W; t++) {
                    const int i1 = k + 2 * b, i2 = j - 2 * t + (PAD ? 1 : 2);

                    if (i1 < K && i2 >= 0 && i2 < K && row[b] && (t != (PAD ? W - 1 : 0) || neighbour))
                        collect<MAX>(&sum, Pooled<T>::read(d[b][t]), MAX ? there[b][t] : 0, i1 * K + i2,
                                     MAX ? (A)0 : share[b][t]);
                }
            out.at[j] = Pooled<T>::write(sum);
        }
        *(Vec<T, V> *)(dx + (w.lead * p.in[1] + x1) * p.in[2] + w.at[2] * V) = out;
    }
}

template <class T, int V, int K, bool MAX>
__device__ __forceinline__ void pool_grad_rows(const PoolBox &p, T *dx, const T *dy, const unsigned char *places)
{
    if (p.pad[2])
        pool_grad_strip<T, V, K, MAX, true>(p, dx, dy, places);
    else
        pool_grad_strip<T, V, K, MAX, false>(p, dx, dy, places);
}

#define STRIDE2(S, T, V, K, MAX, NAME)                                                                            \
    KERNEL(pool2_##NAME##_last##K##_##S,                                                                          \
           (const PoolBox p, Vec<T, V> *y, const Vec<T, V> *x, Vec<unsigned char, V> *places))                    \
    {                                                                                                             \
        pool_last<T, V, K, MAX>(p, y, x, places);                                                                 \
    }                                                                                                             \
    KERNEL(pool2_##NAME##_rows##K##_##S,                                                                          \
           (const PoolBox p, Vec<T, V / 2> *y, const T *x, Vec<unsigned char, V / 2> *places))                    \
    {                                                                                                             \
        pool_rows<T, V, K, MAX>(p, y, x, places);                                                                 \
    }                                                                                                             \
    KERNEL(pool2_##NAME##_grad_last##K##_##S,                                                                     \
           (const PoolBox p, Vec<T, V> *dx, const Vec<T, V> *dy, const Vec<unsigned char, V> *places))            \
    {                                                                                                             \
        pool_grad_last<T, V, K, MAX>(p, dx, dy, places);                                                          \
    }                                                                                                             \
    KERNEL(pool2_##NAME##_grad_rows##K##_##S, (const PoolBox p, T *dx, const T *dy, const unsigned char *places)) \
    {                                                                                                             \
        pool_grad_rows<T, V, K, MAX>(p, dx, dy, places);                                                          \
    }
#define POOLS(S, T, V)                  \
    STRIDE2(S, T, V, 2, true, max)      \
    STRIDE2(S, T, V, 3, true, max)      \
    STRIDE2(S, T, V, 2, false, average) \
    STRIDE2(S, T, V, 3, false, average)

POOLS(f32, float, 4)
POOLS(f64, double, 2)
POOLS(f16, f16, 8)
POOLS(bf16, bf16, 8)
