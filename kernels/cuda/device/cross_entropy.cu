/* Cross-entropy of scores [outer, classes, inner] and class numbers, in one pass over the scores, and its gradient.
 *
 * Forward each score is read once, in accesses of 16 bytes: maximum and sum of exponentials are found together by
 * rescaling. Backward each is read once and its gradient written once: 2 sizeof(T) bytes an element, and no more.  Rows
 * (inner = 1) belong to lanes of a warp, long ones to a block; columns to threads, neighbours to neighbours, the
 * classes dealt to several blocks whose results a second kernel merges in their order.  A label that is no class makes
 * the loss NaN, and no gradient. */
#include "running.cuh"
#include "loss.cuh"

enum { FLIGHT = 4 }; /* accesses under way at a time */

/* The sums of a sample's scores, or of the scores of a part of its classes. */
template <class A> struct Scores {
    Running<A> exps;
    A all; /* their sum */

    __device__ __forceinline__ void merge(const Scores &o)
    {
        exps.merge(o.exps);
        all += o.all;
    }
    __device__ __forceinline__ A log_sum() const { return exps.max + logarithm(exps.sum); }
};
template <class A> __device__ __forceinline__ Scores<A> no_scores() { return { { -infinity_of<A>(), 0 }, 0 }; }

struct Together {
    template <class S> static __device__ __forceinline__ S of(S a, const S &b)
    {
        a.merge(b);
        return a;
    }
};

template <class A> __device__ __forceinline__ Scores<A> lane_xor(const Scores<A> &v, int o)
{
    return { lane_xor(v.exps, o), __shfl_xor_sync(ALL_LANES, v.all, o) };
}

/* K scores at once, those that are `there`: one rescaling, then an exponential each. */
template <int K, class A> __device__ __forceinline__ void take(Scores<A> &s, const A (&x)[K], const bool (&there)[K])
{
    A top = s.exps.max;

#pragma unroll
    for (int k = 0; k < K; k++)
        if (there[k])
            top = larger(x[k], top);
    if (top > s.exps.max) {
        s.exps.sum *= exponential(s.exps.max - top);
        s.exps.max = top;
    }
#pragma unroll
    for (int k = 0; k < K; k++)
        if (there[k]) {
            s.exps.sum += x[k] == top ? (A)1 : exponential(x[k] - top);
            s.all += x[k];
        }
}

__device__ __forceinline__ bool is_class(const NllBox &p, i64 t) { return t >= 0 && t < p.classes; }

/* The loss of one sample with label t, whose scores begin at x: differences from the largest first, so that large
 * scores do not cost digits. */
template <class T, class A>
__device__ __forceinline__ A sample_loss(const NllBox &p, const T *x, const Scores<A> &s, i64 t)
{
    const A top = s.exps.max, log_sum = logarithm(s.exps.sum);

    if (!is_class(p, t))
        return infinity_of<A>() - infinity_of<A>();
    if (p.smoothing == 0)
        return log_sum + (top - to_float(x[t * p.inner]));
    return log_sum + (A)(1 - p.smoothing) * (top - to_float(x[t * p.inner])) +
           (A)p.smoothing * (top - s.all / (A)p.classes);
}

template <class T, class A>
__device__ __forceinline__ void count_sample(const NllBox &p, const T *x, const Scores<A> &s, i64 t, A *log,
                                             double *loss, double *counted)
{
    *log = s.log_sum();
    if (t == p.ignore)
        return;
    *loss += sample_loss(p, x, s, t);
    ++*counted;
}

/* ---- rows ---- */

template <class T, int V, class A>
__device__ __forceinline__ void take_chunk(Scores<A> &s, const Vec<T, V> &v, i64 at, i64 n)
{
    A x[V];
    bool there[V];

#pragma unroll
    for (int j = 0; j < V; j++) {
        x[j] = to_float(v.at[j]);
        there[j] = at + j >= 0 && at + j < n;
    }
    take(s, x, there);
}

template <class T, class Team>
__device__ __forceinline__ void sum_rows(Team team, const NllBox &p, const T *x, const void *target, void *num,
                                         void *den, typename Accumulator<T>::type *logs, double *partial)
{
    typedef typename Accumulator<T>::type A;
    const int V = Chunk<T>::size;
    double loss = 0, counted = 0;

    for (i64 row = team.first(); team.base(row) < p.samples; row += team.stride()) {
        const i64 n = row < p.samples ? p.classes : 0;
        const T *xs = x + (row < p.samples ? row * p.classes : 0);
        Scores<A> s = no_scores<A>();

        for (i64 at = (i64)team.rank() * V - row_offset(xs); at < n; at += (i64)team.size() * V)
            take_chunk<T, V>(s, chunk_load<T, V>(xs, n, at, from_float<T>((A)0)), at, n);
        s = team.template all<Together>(s);
        if (row < p.samples && team.rank() == 0)
            count_sample(p, xs, s, label_of(p, target, row), logs + row, &loss, &counted);
    }
    block_sums<A>(num, den, partial, loss, counted);
}

/* F chunks more of a whole row. */
template <class T, int F, class A> __device__ __forceinline__ void take_whole(Scores<A> &s, const Words (&w)[F])
{
    const int V = Chunk<T>::size;
    A x[F][V], top = s.exps.max, base;

#pragma unroll
    for (int f = 0; f < F; f++) {
        Packed<T>::get(x[f], w[f]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            top = larger(x[f][j], top);
            s.all += x[f][j];
        }
    }
    if (top > s.exps.max) {
        s.exps.sum *= exponential(s.exps.max - top);
        s.exps.max = top;
    }
    base = top - top == 0 ? top : 0; /* as in add_all() */
#pragma unroll
    for (int f = 0; f < F; f++)
#pragma unroll
        for (int j = 0; j < V; j++)
            s.exps.sum += exponential_fast(x[f][j] - base);
}

/* A block has a row whose chunks all are whole: 16-bit scores. */
template <class T>
__device__ __forceinline__ void sum_whole(const NllBox &p, const T *x, const void *target, void *num, void *den,
                                          float *logs, double *partial)
{
    const BlockTeam team = {};
    const int chunks = (int)(p.classes / Chunk<T>::size), step = blockDim.x;
    double loss = 0, counted = 0;

    for (i64 row = blockIdx.x; row < p.samples; row += gridDim.x) {
        const Words *words = (const Words *)(x + row * p.classes);
        Scores<float> s = no_scores<float>();
        int c = threadIdx.x;

        for (; c + (FLIGHT - 1) * step < chunks; c += FLIGHT * step) {
            Words w[FLIGHT];

#pragma unroll
            for (int f = 0; f < FLIGHT; f++)
                w[f] = words[c + f * step];
            take_whole<T>(s, w);
        }
        for (; c < chunks; c += step) {
            const Words w[1] = { words[c] };

            take_whole<T>(s, w);
        }
        s.exps = running_all(team, s.exps);
        if (p.smoothing != 0)
            s.all = team.all<Sum>(s.all);
        if (threadIdx.x == 0)
            count_sample(p, x + row * p.classes, s, label_of(p, target, row), logs + row, &loss, &counted);
    }
    block_sums<float>(num, den, partial, loss, counted);
}

/* The numbers of a sample that its gradient needs: dx = d (exp(x - log_sum) - share - [c = t] rest). */
template <class A> struct Wanted {
    A d, log_sum;
    i64 t;
};

template <class A>
__device__ __forceinline__ Wanted<A> wanted_of(const NllBox &p, const A *dy, const void *target, const A *logs, i64 s)
{
    const i64 t = label_of(p, target, s);

    return { t == p.ignore || !is_class(p, t) ? (A)0 : *dy, logs[s], t };
}

template <class T, class A> __device__ __forceinline__ T gradient_of(const NllBox &p, const Wanted<A> &w, T x, i64 c)
{
    const A share = (A)(p.smoothing / (double)p.classes), rest = (A)(1 - p.smoothing);

    return from_float<T>(w.d != 0 ? w.d * (exponential(to_float(x) - w.log_sum) - share - (c == w.t ? rest : (A)0))
                                  : (A)0);
}

template <class T, class Team>
__device__ __forceinline__ void grad_rows(Team team, const NllBox &p, const typename Accumulator<T>::type *dy,
                                          const T *x, const void *target, const typename Accumulator<T>::type *logs,
                                          T *dx)
{
    typedef typename Accumulator<T>::type A;
    const int V = Chunk<T>::size;

    for (i64 row = team.first(); row < p.samples; row += team.stride()) {
        const Wanted<A> w = wanted_of(p, dy, target, logs, row);
        const T *xs = x + row * p.classes;
        T *ys = dx + row * p.classes;

        for (i64 at = (i64)team.rank() * V - row_offset(xs); at < p.classes; at += (i64)team.size() * V) {
            Vec<T, V> v = chunk_load<T, V>(xs, p.classes, at, from_float<T>((A)0));

#pragma unroll
            for (int j = 0; j < V; j++)
                v.at[j] = gradient_of(p, w, v.at[j], at + j);
            chunk_store<T, V>(ys, p.classes, at, v);
        }
    }
}

/* ---- columns: 32 W neighbouring ones to a tile, the classes of a tile dealt to `parts` blocks and to their warps
 * ---- */

struct Tile {
    i64 sample, from;
    bool valid;
};

/* The first of this lane's W columns: its number as a sample, and where its scores begin. */
template <int W> __device__ __forceinline__ Tile tile_of(const NllBox &p, i64 tile, i64 tiles)
{
    const i64 o = tile / tiles, column = (tile % tiles * WARP + threadIdx.x % WARP) * W;

    return { o * p.inner + column, o * p.classes * p.inner + column, column < p.inner };
}

template <class T, int W, class A>
__device__ __forceinline__ void take_columns(Scores<A> (&s)[W], const NllBox &p, const T *x, i64 first, i64 step)
{
    for (i64 c = first; c < p.classes; c += FLIGHT * step) {
        Vec<T, W> v[FLIGHT];
        bool there[FLIGHT];

#pragma unroll
        for (int f = 0; f < FLIGHT; f++)
            if ((there[f] = c + f * step < p.classes))
                v[f] = *(const Vec<T, W> *)(x + (c + f * step) * p.inner);
#pragma unroll
        for (int j = 0; j < W; j++) {
            A column[FLIGHT];

#pragma unroll
            for (int f = 0; f < FLIGHT; f++)
                column[f] = there[f] ? (A)to_float(v[f].at[j]) : (A)0;
            take(s[j], column, there);
        }
    }
}

/* part[k][sample]: what the classes of part k come to. */
template <class T, int W>
__device__ __forceinline__ void part_columns(const NllBox &p, const T *x, Scores<typename Accumulator<T>::type> *part,
                                             int parts)
{
    typedef typename Accumulator<T>::type A;
    DYNAMIC_SHARED(Scores<A>, shared); /* [warps][32 W] */
    const i64 tiles = (p.inner / W + WARP - 1) / WARP, outer = p.samples / p.inner;
    const int lane = threadIdx.x % WARP, r = threadIdx.x / WARP, R = blockDim.x / WARP;

    for (i64 item = blockIdx.x; item < outer * tiles * parts; item += gridDim.x) {
        const Tile at = tile_of<W>(p, item / parts, tiles);
        const i64 k = item % parts, begin = item / parts / tiles * p.inner, column = item / parts % tiles * WARP * W;
        Scores<A> s[W];

#pragma unroll
        for (int j = 0; j < W; j++)
            s[j] = no_scores<A>();
        if (at.valid)
            take_columns<T, W>(s, p, x + at.from, k * R + r, (i64)parts * R);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < W; j++)
            shared[(r * WARP + lane) * W + j] = s[j];
        __syncthreads();
        for (int i = threadIdx.x; i < WARP * W && column + i < p.inner; i += blockDim.x) {
            Scores<A> sum = shared[i];

            for (int q = 1; q < R; q++)
                sum.merge(shared[q * WARP * W + i]);
            part[k * p.samples + begin + column + i] = sum;
        }
    }
}

template <class T>
__device__ __forceinline__ void merge_columns(const NllBox &p, const T *x, const void *target, void *num, void *den,
                                              typename Accumulator<T>::type *logs, double *partial,
                                              const Scores<typename Accumulator<T>::type> *part, int parts)
{
    typedef typename Accumulator<T>::type A;
    double loss = 0, counted = 0;

    for (i64 s = (i64)blockIdx.x * blockDim.x + threadIdx.x; s < p.samples; s += (i64)gridDim.x * blockDim.x) {
        const i64 o = s / p.inner;
        Scores<A> sum = part[s];

        for (int k = 1; k < parts; k++)
            sum.merge(part[k * p.samples + s]);
        count_sample(p, x + o * p.classes * p.inner + (s - o * p.inner), sum, label_of(p, target, s), logs + s, &loss,
                     &counted);
    }
    block_sums<A>(num, den, partial, loss, counted);
}

template <class T, int W>
__device__ __forceinline__ void grad_columns(const NllBox &p, const typename Accumulator<T>::type *dy, const T *x,
                                             const void *target, const typename Accumulator<T>::type *logs, T *dx,
                                             int parts)
{
    typedef typename Accumulator<T>::type A;
    const i64 tiles = (p.inner / W + WARP - 1) / WARP, outer = p.samples / p.inner;
    const int r = threadIdx.x / WARP, R = blockDim.x / WARP;

    for (i64 item = blockIdx.x; item < outer * tiles * parts; item += gridDim.x) {
        const Tile at = tile_of<W>(p, item / parts, tiles);
        Wanted<A> w[W];

        if (!at.valid)
            continue;
#pragma unroll
        for (int j = 0; j < W; j++)
            w[j] = wanted_of(p, dy, target, logs, at.sample + j);
        for (i64 c = item % parts * R + r; c < p.classes; c += (i64)parts * R) {
            Vec<T, W> v = *(const Vec<T, W> *)(x + at.from + c * p.inner);

#pragma unroll
            for (int j = 0; j < W; j++)
                v.at[j] = gradient_of(p, w[j], v.at[j], c);
            *(Vec<T, W> *)(dx + at.from + c * p.inner) = v;
        }
    }
}

#define SUMS(S, T, A)                                                                                               \
    KERNEL(cross_entropy_lanes_##S,                                                                                 \
           (const NllBox p, const T *x, const void *target, void *num, void *den, A *logs, double *partial))        \
    {                                                                                                               \
        sum_rows<T>(LaneTeam{ p.lanes }, p, x, target, num, den, logs, partial);                                    \
    }                                                                                                               \
    KERNEL(cross_entropy_block_##S,                                                                                 \
           (const NllBox p, const T *x, const void *target, void *num, void *den, A *logs, double *partial))        \
    {                                                                                                               \
        sum_rows<T>(BlockTeam{}, p, x, target, num, den, logs, partial);                                            \
    }                                                                                                               \
    KERNEL(cross_entropy_columns_##S, (const NllBox p, const T *x, Scores<A> *part, int parts))                     \
    {                                                                                                               \
        part_columns<T, 1>(p, x, part, parts);                                                                      \
    }                                                                                                               \
    KERNEL(cross_entropy_wide_##S, (const NllBox p, const T *x, Scores<A> *part, int parts))                        \
    {                                                                                                               \
        part_columns<T, Chunk<T>::size>(p, x, part, parts);                                                         \
    }                                                                                                               \
    KERNEL(cross_entropy_merge_##S, (const NllBox p, const T *x, const void *target, void *num, void *den, A *logs, \
                                     double *partial, const Scores<A> *part, int parts))                            \
    {                                                                                                               \
        merge_columns<T>(p, x, target, num, den, logs, partial, part, parts);                                       \
    }
#define GRAD(NAME, S, T, A, ...)                                                                           \
    KERNEL(cross_entropy_grad_##NAME##_##S,                                                                \
           (const NllBox p, const A *dy, const T *x, const void *target, const A *logs, T *dx, int parts)) \
    {                                                                                                      \
        __VA_ARGS__;                                                                                       \
    }
#define GRADS(S, T, A)                                                                               \
    GRAD(lanes, S, T, A, (void)parts; grad_rows<T>(LaneTeam{ p.lanes }, p, dy, x, target, logs, dx)) \
    GRAD(block, S, T, A, (void)parts; grad_rows<T>(BlockTeam{}, p, dy, x, target, logs, dx))         \
    GRAD(columns, S, T, A, grad_columns<T, 1>(p, dy, x, target, logs, dx, parts))                    \
    GRAD(wide, S, T, A, grad_columns<T, Chunk<T>::size>(p, dy, x, target, logs, dx, parts))

KERNEL(cross_entropy_whole_f16,
       (const NllBox p, const f16 *x, const void *target, void *num, void *den, float *logs, double *partial))
{
    sum_whole(p, x, target, num, den, logs, partial);
}
KERNEL(cross_entropy_whole_bf16,
       (const NllBox p, const bf16 *x, const void *target, void *num, void *den, float *logs, double *partial))
{
    sum_whole(p, x, target, num, den, logs, partial);
}
SUMS(f32, float, float)
SUMS(f64, double, double)
SUMS(f16, f16, float)
SUMS(bf16, bf16, float)
GRADS(f32, float, float)
GRADS(f64, double, double)
GRADS(f16, f16, float)
GRADS(bf16, bf16, float)
