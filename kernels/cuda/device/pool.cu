/* Pooling over windows of any size and over whole planes; pool_stride2.cu has the most usual windows.  Each result, and
 * in gradients each element of the input, is one thread's, which gathers what belongs to it in row-major order: nothing
 * is added atomically.
 *
 * The gradient of the maximum first finds where in its window each maximum stands (one byte for windows of up to 254
 * elements), then every input element collects from the windows that point to it.
 *
 * Bytes moved, with s bytes an element, n inputs and m outputs: forward s (n + m); gradient of the maximum s (2 n + m)
 * and twice m positions; gradient of the average s (n + m).  Windows that overlap are read from the caches. */
#include "pool.cuh"

/* Calls body(number of the position within the window, position in the plane) for each of the window that lies
 * inside. */
template <class F> __device__ __forceinline__ void each_inside(const PoolBox &p, const int o[3], F body)
{
    const int s0 = o[0] * p.stride[0] - p.pad[0], s1 = o[1] * p.stride[1] - p.pad[1],
              s2 = o[2] * p.stride[2] - p.pad[2];

    for (int i = 0; i < p.kernel[0]; i++) {
        const int x0 = s0 + i * p.dilation[0];

        if (x0 < 0 || x0 >= p.in[0])
            continue;
        for (int j = 0; j < p.kernel[1]; j++) {
            const int x1 = s1 + j * p.dilation[1];

            if (x1 < 0 || x1 >= p.in[1])
                continue;
            for (int k = 0; k < p.kernel[2]; k++) {
                const int x2 = s2 + k * p.dilation[2];

                if (x2 >= 0 && x2 < p.in[2])
                    body((i * p.kernel[1] + j) * p.kernel[2] + k, (x0 * p.in[1] + x1) * p.in[2] + x2);
            }
        }
    }
}

/* The largest of each of V windows, of equals the first, a NaN before everything. */
template <class T, int V> struct Largest {
    typedef typename Pooled<T>::type A;
    A max[V];
    int where[V], at[V]; /* within the window and within the plane, -1: nowhere */

    __device__ __forceinline__ void find(const PoolBox &p, const int o[3], const Vec<T, V> *x)
    {
#pragma unroll
        for (int j = 0; j < V; j++) {
            max[j] = Pooled<T>::lowest();
            where[j] = at[j] = -1;
        }
        each_inside(p, o, [&](int k, int position) {
            const Vec<T, V> v = x[position * p.trail];

#pragma unroll
            for (int j = 0; j < V; j++) {
                const A e = Pooled<T>::read(v.at[j]);

                if (where[j] < 0 || e > max[j] || (e != e && max[j] == max[j])) {
                    max[j] = e;
                    where[j] = k;
                    at[j] = position;
                }
            }
        });
    }
};

/* index: as ONNX counts, through the whole tensor with one channel per plane; places: within the window; either may be
 * NULL. */
template <class T, int V>
__device__ __forceinline__ void max_pool(const PoolBox &p, Vec<T, V> *y, const Vec<T, V> *x,
                                         Vec<unsigned char, V> *places, i64 *index)
{
    const i64 n = (i64)blockIdx.x * POOL_THREADS + threadIdx.x;
    Largest<T, V> best;
    Vec<T, V> out;
    Place w;

    if (n >= p.n)
        return;
    w = place_of(p, (u32)n, p.out, p.by_out);
    best.find(p, w.at, x + plane_of(p, w, p.in));
#pragma unroll
    for (int j = 0; j < V; j++)
        out.at[j] = Pooled<T>::write(best.max[j]);
    y[n] = out;
    if (places) {
        Vec<unsigned char, V> place;

#pragma unroll
        for (int j = 0; j < V; j++)
            place.at[j] = (unsigned char)best.where[j]; /* -1 becomes 255, which no position is */
        places[n] = place;
    }
    if (index && V == 1) {
        const i64 size = (i64)p.in[0] * p.in[1] * p.in[2];
        const int at = best.at[0], x2 = at % p.in[2], x1 = at / p.in[2] % p.in[1], x0 = at / p.in[2] / p.in[1];

        index[n] = at < 0 ? -1 : w.lead * size + (p.column_major ? (i64)(x2 * p.in[1] + x1) * p.in[0] + x0 : at);
    }
}

template <class T, int V, class P>
__device__ __forceinline__ void max_where(const PoolBox &p, Vec<P, V> *where, const Vec<T, V> *x)
{
    const i64 n = (i64)blockIdx.x * POOL_THREADS + threadIdx.x;
    Largest<T, V> best;
    Vec<P, V> out;
    Place w;

    if (n >= p.n)
        return;
    w = place_of(p, (u32)n, p.out, p.by_out);
    best.find(p, w.at, x + plane_of(p, w, p.in));
#pragma unroll
    for (int j = 0; j < V; j++)
        out.at[j] = (P)best.where[j]; /* -1 becomes the largest P, which no position is */
    where[n] = out;
}

/* ---- gradients: what an input element collects from ---- */

/* The first output position along an axis whose window may reach x. */
__device__ __forceinline__ int first_window(const PoolBox &p, int a, int x)
{
    const int reach = x + p.pad[a] - (p.kernel[a] - 1) * p.dilation[a];

    return reach <= 0 ? 0 : (int)Division<u32>::of((u32)(reach + p.stride[a] - 1), p.by_stride[a], 0);
}

/* Calls body(number of the position within the window, output position in its plane, output position) for each
 * window. */
template <class F> __device__ __forceinline__ void each_window(const PoolBox &p, const int x[3], F body)
{
    const int first1 = first_window(p, 1, x[1]), first2 = first_window(p, 2, x[2]);
    int o[3];

    for (o[0] = first_window(p, 0, x[0]); o[0] < p.out[0]; o[0]++) {
        const int d0 = x[0] + p.pad[0] - o[0] * p.stride[0];

        if (d0 < 0)
            break;
        if (d0 % p.dilation[0])
            continue;
        for (o[1] = first1; o[1] < p.out[1]; o[1]++) {
            const int d1 = x[1] + p.pad[1] - o[1] * p.stride[1];

            if (d1 < 0)
                break;
            if (d1 % p.dilation[1])
                continue;
            for (o[2] = first2; o[2] < p.out[2]; o[2]++) {
                const int d2 = x[2] + p.pad[2] - o[2] * p.stride[2];

                if (d2 < 0)
                    break;
                if (d2 % p.dilation[2] == 0)
                    body((d0 / p.dilation[0] * p.kernel[1] + d1 / p.dilation[1]) * p.kernel[2] + d2 / p.dilation[2],
                         (o[0] * p.out[1] + o[1]) * p.out[2] + o[2], o);
            }
        }
    }
}

template <class T, int V, class P>
__device__ __forceinline__ void max_grad(const PoolBox &p, Vec<T, V> *dx, const Vec<T, V> *dy, const Vec<P, V> *where)
{
    const i64 n = (i64)blockIdx.x * POOL_THREADS + threadIdx.x;
    typename Pooled<T>::type sum[V] = {};
    Vec<T, V> out;
    Place w;
    i64 plane;

    if (n >= p.n)
        return;
    w = place_of(p, (u32)n, p.in, p.by_in);
    plane = plane_of(p, w, p.out);
    each_window(p, w.at, [&](int k, int position, const int *) {
        const Vec<P, V> there = where[plane + position * p.trail];
        const Vec<T, V> d = dy[plane + position * p.trail];

#pragma unroll
        for (int j = 0; j < V; j++)
            sum[j] += there.at[j] == (P)k ? Pooled<T>::read(d.at[j]) : 0;
    });
#pragma unroll
    for (int j = 0; j < V; j++)
        out.at[j] = Pooled<T>::write(sum[j]);
    dx[n] = out;
}

/* ---- averages ---- */

template <class T, int V> __device__ __forceinline__ void average(const PoolBox &p, Vec<T, V> *y, const Vec<T, V> *x)
{
    typedef typename Pooled<T>::type A;
    const i64 n = (i64)blockIdx.x * POOL_THREADS + threadIdx.x;
    A sum[V] = {}, share;
    Vec<T, V> out;
    Place w;

    if (n >= p.n)
        return;
    w = place_of(p, (u32)n, p.out, p.by_out);
    x += plane_of(p, w, p.in);
    each_inside(p, w.at, [&](int, int position) {
        const Vec<T, V> v = x[position * p.trail];

#pragma unroll
        for (int j = 0; j < V; j++)
            sum[j] += Pooled<T>::read(v.at[j]);
    });
    share = share_of<A>(p, w.at);
#pragma unroll
    for (int j = 0; j < V; j++)
        out.at[j] = Pooled<T>::write(sum[j] * share);
    y[n] = out;
}

template <class T, int V>
__device__ __forceinline__ void average_grad(const PoolBox &p, Vec<T, V> *dx, const Vec<T, V> *dy)
{
    typedef typename Pooled<T>::type A;
    const i64 n = (i64)blockIdx.x * POOL_THREADS + threadIdx.x;
    A sum[V] = {};
    Vec<T, V> out;
    Place w;

    if (n >= p.n)
        return;
    w = place_of(p, (u32)n, p.in, p.by_in);
    dy += plane_of(p, w, p.out);
    each_window(p, w.at, [&](int, int position, const int *o) {
        const Vec<T, V> d = dy[position * p.trail];
        const A share = share_of<A>(p, o);

#pragma unroll
        for (int j = 0; j < V; j++)
            sum[j] += Pooled<T>::read(d.at[j]) * share;
    });
#pragma unroll
    for (int j = 0; j < V; j++)
        out.at[j] = Pooled<T>::write(sum[j]);
    dx[n] = out;
}

/* ---- whole planes: data [lead, size, trail] of units ---- */

template <bool MAX, class A> __device__ __forceinline__ A pooled(A a, A b)
{
    return MAX ? (b > a || b != b ? b : a) : a + b;
}

/* trail = 1: a warp for each plane. */
template <class T, int V, bool MAX>
__device__ __forceinline__ void global_first(Vec<T, 1> *y, const Vec<T, V> *x, i64 planes, i64 size)
{
    typedef typename Pooled<T>::type A;
    const i64 plane = ((i64)blockIdx.x * POOL_THREADS + threadIdx.x) / 32;
    const int lane = threadIdx.x & 31;
    A all = MAX ? Pooled<T>::lowest() : 0;

    if (plane >= planes)
        return;
    x += plane * size;
    for (i64 i = lane; i < size; i += 128) {
        Vec<T, V> v[4];

#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k * 32 < size)
                v[k] = x[i + k * 32];
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k * 32 < size)
#pragma unroll
                for (int j = 0; j < V; j++)
                    all = pooled<MAX>(all, Pooled<T>::read(v[k].at[j]));
    }
    for (int o = 16; o; o /= 2)
        all = pooled<MAX>(all, __shfl_down_sync(0xffffffffu, all, o));
    if (lane == 0)
        y[plane].at[0] = Pooled<T>::write(MAX ? all : all / (A)(size * V));
}

template <class T, int V, bool MAX>
__device__ __forceinline__ void global_last(Vec<T, V> *y, const Vec<T, V> *x, i64 n, i64 size, i64 trail)
{
    typedef typename Pooled<T>::type A;
    const i64 at = (i64)blockIdx.x * POOL_THREADS + threadIdx.x;
    A all[V];
    Vec<T, V> out;

    if (at >= n)
        return;
    x += at / trail * size * trail + at % trail;
#pragma unroll
    for (int j = 0; j < V; j++)
        all[j] = MAX ? Pooled<T>::lowest() : 0;
    for (i64 i = 0; i < size; i += 4) {
        Vec<T, V> v[4];

#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < size)
                v[k] = x[(i + k) * trail];
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < size)
#pragma unroll
                for (int j = 0; j < V; j++)
                    all[j] = pooled<MAX>(all[j], Pooled<T>::read(v[k].at[j]));
    }
#pragma unroll
    for (int j = 0; j < V; j++)
        out.at[j] = Pooled<T>::write(MAX ? all[j] : all[j] / (A)size);
    y[at] = out;
}

#define LARGEST(S, T, V, NAME)                                                                             \
    KERNEL(pool_max_##NAME##_##S,                                                                          \
           (const PoolBox p, Vec<T, V> *y, const Vec<T, V> *x, Vec<unsigned char, V> *places, i64 *index)) \
    {                                                                                                      \
        max_pool<T, V>(p, y, x, places, index);                                                            \
    }
#define WINDOWS(S, T, V, NAME)                                                                                         \
    LARGEST(S, T, V, NAME)                                                                                             \
    KERNEL(pool_where8_##NAME##_##S, (const PoolBox p, Vec<unsigned char, V> *w, const Vec<T, V> *x))                  \
    {                                                                                                                  \
        max_where<T, V, unsigned char>(p, w, x);                                                                       \
    }                                                                                                                  \
    KERNEL(pool_where32_##NAME##_##S, (const PoolBox p, Vec<int, V> *w, const Vec<T, V> *x))                           \
    {                                                                                                                  \
        max_where<T, V, int>(p, w, x);                                                                                 \
    }                                                                                                                  \
    KERNEL(pool_max_grad8_##NAME##_##S,                                                                                \
           (const PoolBox p, Vec<T, V> *dx, const Vec<T, V> *dy, const Vec<unsigned char, V> *w))                      \
    {                                                                                                                  \
        max_grad<T, V, unsigned char>(p, dx, dy, w);                                                                   \
    }                                                                                                                  \
    KERNEL(pool_max_grad32_##NAME##_##S, (const PoolBox p, Vec<T, V> *dx, const Vec<T, V> *dy, const Vec<int, V> *w))  \
    {                                                                                                                  \
        max_grad<T, V, int>(p, dx, dy, w);                                                                             \
    }                                                                                                                  \
    KERNEL(pool_average_##NAME##_##S, (const PoolBox p, Vec<T, V> *y, const Vec<T, V> *x)) { average<T, V>(p, y, x); } \
    KERNEL(pool_average_grad_##NAME##_##S, (const PoolBox p, Vec<T, V> *dx, const Vec<T, V> *dy))                      \
    {                                                                                                                  \
        average_grad<T, V>(p, dx, dy);                                                                                 \
    }                                                                                                                  \
    KERNEL(pool_global_average_first_##NAME##_##S, (Vec<T, 1> * y, const Vec<T, V> *x, i64 planes, i64 size))          \
    {                                                                                                                  \
        global_first<T, V, false>(y, x, planes, size);                                                                 \
    }                                                                                                                  \
    KERNEL(pool_global_max_first_##NAME##_##S, (Vec<T, 1> * y, const Vec<T, V> *x, i64 planes, i64 size))              \
    {                                                                                                                  \
        global_first<T, V, true>(y, x, planes, size);                                                                  \
    }                                                                                                                  \
    KERNEL(pool_global_average_last_##NAME##_##S, (Vec<T, V> * y, const Vec<T, V> *x, i64 n, i64 size, i64 trail))     \
    {                                                                                                                  \
        global_last<T, V, false>(y, x, n, size, trail);                                                                \
    }                                                                                                                  \
    KERNEL(pool_global_max_last_##NAME##_##S, (Vec<T, V> * y, const Vec<T, V> *x, i64 n, i64 size, i64 trail))         \
    {                                                                                                                  \
        global_last<T, V, true>(y, x, n, size, trail);                                                                 \
    }
#define POOLS(S, T)     \
    WINDOWS(S, T, 1, 1) \
    WINDOWS(S, T, 16 / sizeof(T), v)

POOLS(f32, float)
POOLS(f64, double)
POOLS(f16, f16)
POOLS(bf16, bf16)
LARGEST(i8, signed char, 1, 1)
LARGEST(u8, unsigned char, 1, 1)
