/* LayerNormalization of rows [rows, n] and its gradient.
 *
 * Forward: x is read once, held in registers, y written once: 2 sizeof(T) bytes an element (scale and bias stay in L1);
 * rows too long for registers are read three times, from L2 but for the first.  Mean, then the mean square distance
 * from it.
 *
 * Backward: x, dy and what is added to dx read once, dx written once: 4 sizeof(T) bytes an element, 3 where nothing is
 * added.  A thread has the same columns in every
 * row, so it sums their part of dscale and dbias in registers; a block leaves one row [2, n] of partial sums in
 * scratch, and a second kernel adds these up in the order of the blocks, whose number depends on the shape alone. */
#include "math.cuh"
#include "row.cuh"

enum { GRAD_WARPS = 4 };   /* of a block whose warps have a row each: WARP_THREADS of kernels/cuda/cuda_layernorm.c */
enum { SUM_BLOCK = 1024 }; /* threads of layernorm_grad_sums: 32 of SUM_THREADS (kernels/cuda/cuda_layernorm.c) */

/* ---- scale and bias ---- */

/* V numbers from `at` on, of n, as they are computed with; `wide`: stored so, where the data has 16 bits. */
template <class T, int V>
__device__ __forceinline__ Vec<typename Accumulator<T>::type, V> numbers(const void *p, int wide, i64 n, i64 at)
{
    typedef typename Accumulator<T>::type A;
    const int P = V < Chunk<A>::size ? V : Chunk<A>::size;
    Vec<A, V> out;

    if (wide) {
#pragma unroll
        for (int k = 0; k < V; k += P) {
            const Vec<A, P> v = chunk_load<A, P>((const A *)p, n, at + k, A());

#pragma unroll
            for (int j = 0; j < P; j++)
                out.at[k + j] = v.at[j];
        }
    } else {
        const Vec<T, V> v = chunk_load<T, V>((const T *)p, n, at, T());

#pragma unroll
        for (int j = 0; j < V; j++)
            out.at[j] = to_float(v.at[j]);
    }
    return out;
}

/* The numbers of one chunk in whole rows. */
template <class T>
__device__ __forceinline__ void whole_numbers(float (&y)[Chunk<T>::size], const void *p, int wide, int chunk)
{
    const int V = Chunk<T>::size, parts = V / 4;

    if (!wide) {
        Packed<T>::get(y, ((const Words *)p)[chunk]);
        return;
    }
#pragma unroll
    for (int k = 0; k < parts; k++) {
        const Vec<float, 4> v = ((const Vec<float, 4> *)p)[chunk * parts + k];

#pragma unroll
        for (int j = 0; j < 4; j++)
            y[4 * k + j] = v.at[j];
    }
}

template <class T> __device__ __forceinline__ typename Accumulator<T>::type number(const void *p, int wide, i64 i)
{
    typedef typename Accumulator<T>::type A;

    return wide ? ((const A *)p)[i] : to_float(((const T *)p)[i]);
}

/* ---- forward ---- */

template <class T> struct Forward {
    typedef typename Accumulator<T>::type A;
    const T *x;
    const void *scale, *bias; /* bias may be NULL */
    int wide;                 /* scale and bias are of A */
    T *y;
    A *mean, *inv; /* may be NULL */
    i64 rows, n;
    A epsilon;

    __device__ __forceinline__ Vec<T, Chunk<T>::size> apply(const Vec<T, Chunk<T>::size> &in, i64 count, i64 at, A m,
                                                            A i) const
    {
        const int V = Chunk<T>::size;
        const Vec<A, V> s = numbers<T, V>(scale, wide, count, at);
        Vec<A, V> b;
        Vec<T, V> out;

        if (bias)
            b = numbers<T, V>(bias, wide, count, at);
#pragma unroll
        for (int j = 0; j < V; j++)
            out.at[j] = from_float<T>((to_float(in.at[j]) - m) * i * s.at[j] + (bias ? b.at[j] : 0));
        return out;
    }
    __device__ __forceinline__ void keep(i64 row, A m, A i) const
    {
        if (mean)
            mean[row] = m;
        if (inv)
            inv[row] = i;
    }
};

template <class T, int K, class Team> __device__ __forceinline__ void forward_rows(Team team, const Forward<T> &f)
{
    typedef typename Accumulator<T>::type A;
    const int V = Chunk<T>::size;

    for (i64 row = team.first(); team.base(row) < f.rows; row += team.stride()) {
        const bool valid = row < f.rows;
        const i64 count = valid ? f.n : 0;
        const T *xs = f.x + (valid ? row * f.n : 0);
        const i64 first = (i64)team.rank() * V - row_offset(xs), step = (i64)team.size() * V;
        Vec<T, V> in[K];
        A m = 0, i = 0;

#pragma unroll
        for (int k = 0; k < K; k++)
            in[k] = chunk_load<T, V>(xs, count, first + k * step, T());
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int j = 0; j < V; j++)
                m += to_float(in[k].at[j]);
        m = team.template all<Sum>(m) / (A)f.n;
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int j = 0; j < V; j++) {
                const i64 at = first + k * step + j;
                const A d = at >= 0 && at < count ? to_float(in[k].at[j]) - m : 0;

                i += d * d;
            }
        i = 1 / root(team.template all<Sum>(i) / (A)f.n + f.epsilon);
#pragma unroll
        for (int k = 0; k < K; k++)
            if (first + k * step < count)
                chunk_store<T, V>(f.y + (xs - f.x), count, first + k * step,
                                  f.apply(in[k], count, first + k * step, m, i));
        if (valid && team.rank() == 0)
            f.keep(row, m, i);
    }
}

/* x becomes its distance from the row's mean, 0 in chunks that the row does not have. */
template <int K, int V, class Team>
__device__ __forceinline__ void whole_moments(Team team, float (&x)[K][V], int chunks, float epsilon, float *mean,
                                              float *inv)
{
    const float n = (float)(chunks * V);
    float m = 0, i = 0;

#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < V; j++)
            m += x[k][j];
    m = team.template all<Sum>(m) / n;
#pragma unroll
    for (int k = 0; k < K; k++) {
        const bool there = team.rank() + k * team.size() < chunks;

#pragma unroll
        for (int j = 0; j < V; j++) {
            x[k][j] = there ? x[k][j] - m : 0;
            i += x[k][j] * x[k][j];
        }
    }
    *mean = m;
    *inv = 1 / root(team.template all<Sum>(i) / n + epsilon);
}

/* Whole rows of at most K chunks a thread; scale and bias begin on 16-byte boundaries too. */
template <class T, int K, class Team> __device__ __forceinline__ void forward_whole(Team team, const Forward<T> &f)
{
    const int V = Chunk<T>::size, chunks = (int)f.n / V;

    for (i64 row = team.first(); row < f.rows; row += team.stride()) {
        Words w[K];
        float x[K][V], m, i;

        whole_load(w, team, f.x + row * f.n, chunks, 0);
#pragma unroll
        for (int k = 0; k < K; k++)
            Packed<T>::get(x[k], w[k]);
        whole_moments(team, x, chunks, f.epsilon, &m, &i);
#pragma unroll
        for (int k = 0; k < K; k++) {
            const int c = team.rank() + k * team.size();
            float s[V], b[V] = {};

            if (c >= chunks)
                continue;
            whole_numbers<T>(s, f.scale, f.wide, c);
            if (f.bias)
                whole_numbers<T>(b, f.bias, f.wide, c);
#pragma unroll
            for (int j = 0; j < V; j++)
                x[k][j] = x[k][j] * i * s[j] + b[j];
            whole_store(f.y + row * f.n, c, x[k]);
        }
        if (team.rank() == 0)
            f.keep(row, m, i);
    }
}

/* Mean and inverse deviation of a row that the whole block reads twice. */
template <class T, class A> __device__ __forceinline__ void moments_long(const T *xs, i64 n, A epsilon, A *mean, A *inv)
{
    const int V = Chunk<T>::size;
    const i64 first = (i64)threadIdx.x * V - row_offset(xs), step = (i64)blockDim.x * V;
    A m = 0, i = 0;

    for (i64 at = first; at < n; at += step) {
        const Vec<T, V> in = chunk_load<T, V>(xs, n, at, T());

#pragma unroll
        for (int j = 0; j < V; j++)
            m += to_float(in.at[j]);
    }
    m = block_all<Sum>(m) / (A)n;
    for (i64 at = first; at < n; at += step) {
        const Vec<T, V> in = chunk_load<T, V>(xs, n, at, T());

#pragma unroll
        for (int j = 0; j < V; j++) {
            const A d = at + j >= 0 && at + j < n ? to_float(in.at[j]) - m : 0;

            i += d * d;
        }
    }
    *mean = m;
    *inv = 1 / root(block_all<Sum>(i) / (A)n + epsilon);
}

template <class T> __device__ __forceinline__ void forward_long(const Forward<T> &f)
{
    typedef typename Accumulator<T>::type A;
    const int V = Chunk<T>::size;

    for (i64 row = blockIdx.x; row < f.rows; row += gridDim.x) {
        const T *xs = f.x + row * f.n;
        A m, i;

        moments_long<T, A>(xs, f.n, f.epsilon, &m, &i);
        for (i64 at = (i64)threadIdx.x * V - row_offset(xs); at < f.n; at += (i64)blockDim.x * V)
            chunk_store<T, V>(f.y + row * f.n, f.n, at, f.apply(chunk_load<T, V>(xs, f.n, at, T()), f.n, at, m, i));
        if (threadIdx.x == 0)
            f.keep(row, m, i);
    }
}

/* ---- backward ---- */

template <class T> struct Backward {
    typedef typename Accumulator<T>::type A;
    const T *x, *dy;
    const void *scale;
    int wide;       /* scale is of A, and so are dscale and dbias */
    const T *added; /* to dx; may be NULL */
    T *dx;          /* perhaps in the place of x, dy or added */
    A *partial;     /* [blocks, 2, n] */
    i64 rows, n;
    A epsilon;
};

/* Mean and inverse deviation of a row whose elements first + k step ... + W - 1 the thread has in x[k], those below
 * count. */
template <class T, int W, int K, class Team, class A>
__device__ __forceinline__ void moments_held(Team team, const Vec<T, W> (&x)[K], i64 first, i64 step, i64 count,
                                             const Backward<T> &b, A *mean, A *inv)
{
    A m = 0, i = 0;

#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < W; j++)
            m += first + k * step < count ? to_float(x[k].at[j]) : 0;
    m = team.template all<Sum>(m) / (A)b.n;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < W; j++) {
            const A d = first + k * step < count ? to_float(x[k].at[j]) - m : 0;

            i += d * d;
        }
    i = 1 / root(team.template all<Sum>(i) / (A)b.n + b.epsilon);
    *mean = m;
    *inv = i;
}

/* Rows of at most K W elements a thread, in accesses of W elements: n is a multiple of W and all tensors begin on
 * boundaries of W elements.  Adds the thread's columns' dy xhat to dscale and dy to dbias. */
template <class T, int W, int K, class Team>
__device__ __forceinline__ void backward_rows(Team team, const Backward<T> &b,
                                              typename Accumulator<T>::type (&dscale)[K][W],
                                              typename Accumulator<T>::type (&dbias)[K][W])
{
    typedef typename Accumulator<T>::type A;
    const i64 first = (i64)team.rank() * W, step = (i64)team.size() * W;

    for (i64 row = team.first(); team.base(row) < b.rows; row += team.stride()) {
        const i64 count = row < b.rows ? b.n : 0, from = row < b.rows ? row * b.n : 0;
        Vec<T, W> x[K], dy[K], added[K];
        A m, i, h = 0, hx = 0;

#pragma unroll
        for (int k = 0; k < K; k++)
            if (first + k * step < count) {
                x[k] = *(const Vec<T, W> *)(b.x + from + first + k * step);
                dy[k] = *(const Vec<T, W> *)(b.dy + from + first + k * step);
                if (b.added)
                    added[k] = *(const Vec<T, W> *)(b.added + from + first + k * step);
            }
        moments_held(team, x, first, step, count, b, &m, &i);
#pragma unroll
        for (int k = 0; k < K; k++)
            if (first + k * step < count) {
                const Vec<A, W> s = numbers<T, W>(b.scale, b.wide, b.n, first + k * step);

#pragma unroll
                for (int j = 0; j < W; j++) {
                    const A xhat = (to_float(x[k].at[j]) - m) * i, g = to_float(dy[k].at[j]),
                            d = rounded_product(g, s.at[j]);

                    h += d;
                    hx += d * xhat;
                    dscale[k][j] += g * xhat;
                    dbias[k][j] += g;
                }
            }
        h = team.template all<Sum>(h) / (A)b.n;
        hx = team.template all<Sum>(hx) / (A)b.n;
#pragma unroll
        for (int k = 0; k < K; k++)
            if (first + k * step < count) {
                const Vec<A, W> s = numbers<T, W>(b.scale, b.wide, b.n, first + k * step);
                Vec<T, W> out;

#pragma unroll
                for (int j = 0; j < W; j++) {
                    const A xhat = (to_float(x[k].at[j]) - m) * i,
                            d = i * (rounded_product(to_float(dy[k].at[j]), s.at[j]) - h - xhat * hx);

                    out.at[j] = from_float<T>(b.added ? d + to_float(added[k].at[j]) : d);
                }
                *(Vec<T, W> *)(b.dx + from + first + k * step) = out;
            }
    }
}

/* A warp's shared memory in backward_whole(): places for two rows.  A lane reads back what it has copied, so no lane
 * waits for another. */
template <class T, int K> struct RowStore {
    const Backward<T> &b;
    Words *own; /* [2, 3, K, lanes] from the lane on: of two rows x, dy and what is added */
    int chunks, rank;

    __device__ __forceinline__ Words *at(int place, int tensor) const { return own + (place * 3 + tensor) * K * WARP; }
    __device__ __forceinline__ void begin(int place, i64 row) const
    {
        if (row < b.rows) {
#pragma unroll
            for (int k = 0; k < K; k++)
                if (rank + k * WARP < chunks) {
                    const i64 from = row * chunks + rank + k * WARP;

                    copy_begin(at(place, 0) + k * WARP, (const Words *)b.x + from);
                    copy_begin(at(place, 1) + k * WARP, (const Words *)b.dy + from);
                    if (b.added)
                        copy_begin(at(place, 2) + k * WARP, (const Words *)b.added + from);
                }
        }
        copy_group();
    }
};

/* The row in `place` of backward_whole(): dx is written. */
template <class T, int K>
__device__ __forceinline__ void backward_row(const RowStore<T, K> &r, int place, i64 row,
                                             const float (&scale)[K][Chunk<T>::size],
                                             float (&dscale)[K][Chunk<T>::size], float (&dbias)[K][Chunk<T>::size])
{
    const WarpTeam team = {};
    const int V = Chunk<T>::size;
    const Backward<T> &b = r.b;
    float x[K][V], d[K][V], m, i, h = 0, hx = 0;

#pragma unroll
    for (int k = 0; k < K; k++)
        Packed<T>::get(x[k], r.at(place, 0)[k * WARP]);
    whole_moments(team, x, r.chunks, b.epsilon, &m, &i);
#pragma unroll
    for (int k = 0; k < K; k++) {
        Packed<T>::get(d[k], r.at(place, 1)[k * WARP]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            x[k][j] *= i;
            dscale[k][j] += d[k][j] * x[k][j];
            dbias[k][j] += d[k][j];
            d[k][j] = rounded_product(d[k][j], scale[k][j]);
            h += d[k][j];
            hx += d[k][j] * x[k][j];
        }
    }
    h = team.template all<Sum>(h) / (float)b.n;
    hx = team.template all<Sum>(hx) / (float)b.n;
#pragma unroll
    for (int k = 0; k < K; k++) {
        float added[V] = {};

        if (b.added)
            Packed<T>::get(added, r.at(place, 2)[k * WARP]);
#pragma unroll
        for (int j = 0; j < V; j++)
            d[k][j] = i * (d[k][j] - h - x[k][j] * hx) + added[j];
        if (r.rank + k * WARP < r.chunks)
            whole_store(b.dx + row * b.n, r.rank + k * WARP, d[k]);
    }
}

/* Whole rows of at most K chunks a lane: while a row is computed the next is copied to shared memory.  Chunks that a
 * row does not have are zeros there. */
template <class T, int K>
__device__ __forceinline__ void backward_whole(const Backward<T> &b, float (&dscale)[K][Chunk<T>::size],
                                               float (&dbias)[K][Chunk<T>::size])
{
    DYNAMIC_SHARED(Words, rows);
    const WarpTeam team = {};
    const RowStore<T, K> r = { b, rows + (i64)(threadIdx.x / WARP) * 6 * K * WARP + team.rank(),
                               (int)b.n / Chunk<T>::size, team.rank() };
    float scale[K][Chunk<T>::size] = {};
    int place = 0;

#pragma unroll
    for (int k = 0; k < K; k++) {
        if (r.rank + k * WARP < r.chunks)
            whole_numbers<T>(scale[k], b.scale, b.wide, r.rank + k * WARP);
        else
#pragma unroll
            for (int t = 0; t < 6; t++)
                r.at(0, t)[k * WARP] = Words{ { 0, 0, 0, 0 } };
    }
    r.begin(0, team.first());
    r.begin(1, team.first() + team.stride());
    for (i64 row = team.first(); row < b.rows; row += team.stride(), place ^= 1) {
        copy_wait<1>();
        backward_row(r, place, row, scale, dscale, dbias);
        r.begin(place, row + 2 * team.stride());
    }
    __syncthreads(); /* this memory is used again */
}

/* A warp has a row.  Each leaves its sums in a row [K, 2 W] of vectors for all lanes in shared memory, where lanes
 * stand side by side; the block then adds up those rows in the order of its warps. */
template <class T, int W, int K, class A>
__device__ __forceinline__ void warps_sums(const Backward<T> &b, const A (&dscale)[K][W], const A (&dbias)[K][W])
{
    const int P = W < Chunk<A>::size ? W : Chunk<A>::size, parts = W / P;
    typedef Vec<A, P> Part;
    DYNAMIC_SHARED(Part, sum);
    const WarpTeam team = {};
    const int units = (int)(b.n / P), size = (units + parts * WARP - 1) / (parts * WARP) * parts * WARP;
    Part *own = sum + (i64)(threadIdx.x / WARP) * 2 * size + team.rank();

#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int p = 0; p < parts; p++)
            if (k * parts * WARP < size) {
                Part s, t;

#pragma unroll
                for (int j = 0; j < P; j++) {
                    s.at[j] = dscale[k][p * P + j];
                    t.at[j] = dbias[k][p * P + j];
                }
                own[(k * parts + p) * WARP] = s;
                own[(k * parts + p) * WARP + size] = t;
            }
    __syncthreads();
    for (int u = threadIdx.x; u < 2 * units; u += blockDim.x) {
        const int c = u < units ? u : u - units, lane = c / parts % WARP, k = c / parts / WARP, p = c % parts;
        const Part *from = sum + (u < units ? 0 : size) + (k * parts + p) * WARP + lane;
        Part s = from[0];

        for (u32 w = 1; w < blockDim.x / WARP; w++)
#pragma unroll
            for (int j = 0; j < P; j++)
                s.at[j] += from[w * 2 * size].at[j];
        ((Part *)(b.partial + blockIdx.x * 2 * b.n))[u] = s;
    }
}

template <class T, int W, int K> __device__ __forceinline__ void backward_warps(const Backward<T> &b)
{
    typename Accumulator<T>::type dscale[K][W] = {}, dbias[K][W] = {};

    backward_rows<T, W, K>(LaneTeam{ WARP }, b, dscale, dbias);
    warps_sums<T>(b, dscale, dbias);
}

template <class T, int K> __device__ __forceinline__ void backward_whole_warps(const Backward<T> &b)
{
    float dscale[K][Chunk<T>::size] = {}, dbias[K][Chunk<T>::size] = {};

    backward_whole<T, K>(b, dscale, dbias);
    warps_sums<T>(b, dscale, dbias);
}

template <class T, int W, int K> __device__ __forceinline__ void backward_blocks(const Backward<T> &b)
{
    typedef typename Accumulator<T>::type A;
    A dscale[K][W] = {}, dbias[K][W] = {};

    backward_rows<T, W, K>(BlockTeam{}, b, dscale, dbias);
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < W; j++) {
            const i64 at = (i64)(threadIdx.x + k * blockDim.x) * W + j;

            if (at < b.n) {
                b.partial[blockIdx.x * 2 * b.n + at] = dscale[k][j];
                b.partial[(blockIdx.x * 2 + 1) * b.n + at] = dbias[k][j];
            }
        }
}

/* Rows of any length, element by element; each thread keeps its columns' sums in the block's row of `partial`. */
template <class T> __device__ __forceinline__ void backward_long(const Backward<T> &b)
{
    typedef typename Accumulator<T>::type A;
    A *dscale = b.partial + blockIdx.x * 2 * b.n, *dbias = dscale + b.n;

    for (i64 at = threadIdx.x; at < b.n; at += blockDim.x)
        dscale[at] = dbias[at] = 0;
    for (i64 row = blockIdx.x; row < b.rows; row += gridDim.x) {
        const T *x = b.x + row * b.n, *dy = b.dy + row * b.n;
        A m, i, h = 0, hx = 0;

        moments_long<T, A>(x, b.n, b.epsilon, &m, &i);
        for (i64 at = threadIdx.x; at < b.n; at += blockDim.x) {
            const A xhat = (to_float(x[at]) - m) * i, g = to_float(dy[at]),
                    d = rounded_product(g, number<T>(b.scale, b.wide, at));

            h += d;
            hx += d * xhat;
            dscale[at] += g * xhat;
            dbias[at] += g;
        }
        h = block_all<Sum>(h) / (A)b.n;
        hx = block_all<Sum>(hx) / (A)b.n;
        for (i64 at = threadIdx.x; at < b.n; at += blockDim.x) {
            const A d = i * (rounded_product(to_float(dy[at]), number<T>(b.scale, b.wide, at)) - h -
                             (to_float(x[at]) - m) * i * hx);

            b.dx[row * b.n + at] = from_float<T>(b.added ? d + to_float(b.added[row * b.n + at]) : d);
        }
    }
}

/* Blocks of (32, R) threads: 32 columns of partial [parts, 2 n], dealt to R; out[2 n] is dscale, then dbias. */
template <class T>
__device__ __forceinline__ void backward_sums(const typename Accumulator<T>::type *partial, void *dscale, void *dbias,
                                              i64 parts, i64 n, int wide)
{
    typedef typename Accumulator<T>::type A;
    __shared__ A part[32][WARP];
    const i64 column = (i64)blockIdx.x * WARP + threadIdx.x;
    A sum = 0;

    for (i64 p = threadIdx.y; column < 2 * n && p < parts; p += blockDim.y)
        sum += partial[p * 2 * n + column];
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || column >= 2 * n)
        return;
    for (u32 r = 1; r < blockDim.y; r++)
        sum += part[r][threadIdx.x];
    void *to = column < n ? dscale : dbias;
    const i64 at = column < n ? column : column - n;

    if (wide)
        ((A *)to)[at] = sum;
    else
        ((T *)to)[at] = from_float<T>(sum);
}

#define FORWARD_PARAMS(T)                                                                         \
    (const T *x, const void *scale, const void *bias, int wide, T *y, Accumulator<T>::type *mean, \
     Accumulator<T>::type *inv, i64 rows, i64 n, double epsilon, int lanes)
#define FORWARD(T) (Forward<T>{ x, scale, bias, wide, y, mean, inv, rows, n, (Accumulator<T>::type)epsilon })
#define BACKWARD_PARAMS(T)                                                                                       \
    (const T *x, const T *dy, const void *scale, int wide, const T *added, T *dx, Accumulator<T>::type *partial, \
     i64 rows, i64 n, double epsilon)
#define BACKWARD(T) (Backward<T>{ x, dy, scale, wide, added, dx, partial, rows, n, (Accumulator<T>::type)epsilon })

/* LANE, THREAD: elements that a thread holds when a warp, a block has a row. */
#define LAYERNORM(S, T, LANE, THREAD)                                                                       \
    KERNEL(layernorm_lanes1_##S, FORWARD_PARAMS(T)) { forward_rows<T, 1>(LaneTeam{ lanes }, FORWARD(T)); }  \
    KERNEL(layernorm_lanes4_##S, FORWARD_PARAMS(T)) { forward_rows<T, 4>(LaneTeam{ lanes }, FORWARD(T)); }  \
    KERNEL_OF(ROW_BLOCK, layernorm_block_##S, FORWARD_PARAMS(T))                                            \
    {                                                                                                       \
        (void)lanes;                                                                                        \
        forward_rows<T, 4>(BlockTeam{}, FORWARD(T));                                                        \
    }                                                                                                       \
    KERNEL_OF(ROW_BLOCK, layernorm_long_##S, FORWARD_PARAMS(T))                                             \
    {                                                                                                       \
        (void)lanes;                                                                                        \
        forward_long<T>(FORWARD(T));                                                                        \
    }                                                                                                       \
    KERNEL(layernorm_grad_warps_##S, BACKWARD_PARAMS(T)) { backward_warps<T, 1, LANE>(BACKWARD(T)); }       \
    KERNEL_OF(ROW_BLOCK, layernorm_grad_blocks_##S, BACKWARD_PARAMS(T))                                     \
    {                                                                                                       \
        backward_blocks<T, 1, THREAD>(BACKWARD(T));                                                         \
    }                                                                                                       \
    KERNEL_OF(ROW_BLOCK, layernorm_grad_wide_blocks_##S, BACKWARD_PARAMS(T))                                \
    {                                                                                                       \
        backward_blocks<T, Chunk<T>::size, THREAD / Chunk<T>::size>(BACKWARD(T));                           \
    }                                                                                                       \
    KERNEL_OF(ROW_BLOCK, layernorm_grad_long_##S, BACKWARD_PARAMS(T)) { backward_long<T>(BACKWARD(T)); }    \
    KERNEL_OF(SUM_BLOCK, layernorm_grad_sums_##S,                                                           \
              (const Accumulator<T>::type *partial, void *dscale, void *dbias, i64 parts, i64 n, int wide)) \
    {                                                                                                       \
        backward_sums<T>(partial, dscale, dbias, parts, n, wide);                                           \
    }

LAYERNORM(f32, float, 32, 8)
LAYERNORM(f64, double, 16, 4)
LAYERNORM(f16, f16, 32, 8)
LAYERNORM(bf16, bf16, 32, 8)
KERNEL(layernorm_grad_wide_warps_f64, BACKWARD_PARAMS(double)) { backward_warps<double, 2, 8>(BACKWARD(double)); }

/* Whole rows: a warp holds K chunks a lane, or a block 4 a thread.  More of the gradient are too many for registers. */
#define WHOLE(S, T, K)                                  \
    KERNEL(layernorm_whole##K##_##S, FORWARD_PARAMS(T)) \
    {                                                   \
        (void)lanes;                                    \
        forward_whole<T, K>(WarpTeam{}, FORWARD(T));    \
    }
/* By their registers; FEW_PARTS of kernels/cuda/cuda_layernorm.c is for those that fit twice. */
#define GRAD_BLOCKS(T, K) (sizeof(T) == 2 ? (K < 4 ? 3 : 2) : K < 6 ? 3 : 2)
#define WHOLE_GRAD(S, T, K)                                                                            \
    KERNEL_FIT(GRAD_WARPS *WARP, GRAD_BLOCKS(T, K), layernorm_grad_whole##K##_##S, BACKWARD_PARAMS(T)) \
    {                                                                                                  \
        backward_whole_warps<T, K>(BACKWARD(T));                                                       \
    }
#define WHOLES(S, T)                                                   \
    WHOLE(S, T, 1)                                                     \
    WHOLE(S, T, 2)                                                     \
    WHOLE(S, T, 3)                                                     \
    WHOLE(S, T, 4)                                                     \
    WHOLE(S, T, 6)                                                     \
    KERNEL_OF(ROW_BLOCK, layernorm_whole_block_##S, FORWARD_PARAMS(T)) \
    {                                                                  \
        (void)lanes;                                                   \
        forward_whole<T, 4>(BlockTeam{}, FORWARD(T));                  \
    }                                                                  \
    WHOLE_GRAD(S, T, 1)                                                \
    WHOLE_GRAD(S, T, 2)                                                \
    WHOLE_GRAD(S, T, 3)                                                \
    WHOLE_GRAD(S, T, 4)

WHOLES(f16, f16)
WHOLES(bf16, bf16)
WHOLE_GRAD(f32, float, 1)
WHOLE_GRAD(f32, float, 2)
WHOLE_GRAD(f32, float, 3)
WHOLE_GRAD(f32, float, 4)
WHOLE_GRAD(f32, float, 6)
WHOLE_GRAD(f32, float, 8)
