/* Losses over class numbers and over single elements, and the count of right answers.
 *
 * Sums are taken in double, by blocks whose number depends on shapes alone; when there are several, `loss_finish` adds
 * up what they leave, in their order.  Scores are read once in accesses of 16 bytes, or one number a sample where no
 * more is needed; gradients are written once.  A label that is no class makes the loss NaN, and no gradient: a kernel
 * cannot fail, and must not read elsewhere. */
#include "elementwise.cuh"
#include "loss.cuh"
#include "math.cuh"
#include "order.cuh"

/* ---- adding up what blocks leave ---- */

template <class T> __device__ __forceinline__ void finish_sums(void *a, void *b, const double *partial, int parts)
{
    double sum = 0, other = 0;

    for (int i = threadIdx.x; i < parts; i += blockDim.x) {
        sum += partial[2 * i];
        other += partial[2 * i + 1];
    }
    sum = block_all<Sum>(sum);
    other = block_all<Sum>(other);
    if (threadIdx.x == 0)
        put_sums<T>(a, b, sum, other);
}

KERNEL(loss_finish_f32, (void *a, void *b, const double *partial, int parts))
{
    finish_sums<float>(a, b, partial, parts);
}
KERNEL(loss_finish_f64, (void *a, void *b, const double *partial, int parts))
{
    finish_sums<double>(a, b, partial, parts);
}
KERNEL(loss_finish_i64, (void *a, void *b, const double *partial, int parts))
{
    finish_sums<i64>(a, b, partial, parts);
}

/* ---- class numbers ---- */

/* Where the sample's first score is. */
__device__ __forceinline__ i64 sample_at(const NllBox &p, i64 s)
{
    return p.inner == 1 ? s * p.classes : s / p.inner * p.classes * p.inner + s % p.inner;
}

template <class T> __device__ __forceinline__ T weight_of(const T *w, i64 c) { return w ? w[c] : (T)1; }

/* The part of sum_c(w[c] x[c]) that lane `rank` of p.lanes computes. */
template <class T> __device__ __forceinline__ T smooth_part(const NllBox &p, const T *x, const T *w, int rank)
{
    const int V = Chunk<T>::size;
    T sum = 0;

    if (p.inner != 1) {
        for (i64 c = rank; c < p.classes; c += p.lanes)
            sum += weight_of(w, c) * x[c * p.inner];
        return sum;
    }
    for (i64 at = (i64)rank * V - row_offset(x); at < p.classes; at += (i64)p.lanes * V) {
        const Vec<T, V> v = chunk_load<T, V>(x, p.classes, at, (T)0);

#pragma unroll
        for (int j = 0; j < V; j++)
            if (at + j >= 0 && at + j < p.classes)
                sum += weight_of(w, at + j) * v.at[j];
    }
    return sum;
}

/* The lane's part of the sample's loss; *weight: its part of the denominator. */
template <class T>
__device__ __forceinline__ T nll_part(const NllBox &p, const T *x, const void *target, const T *w, i64 s, int rank,
                                      T *weight)
{
    const i64 t = label_of(p, target, s), at = sample_at(p, s);
    const bool known = t >= 0 && t < p.classes;
    T loss = 0;

    *weight = 0;
    if (t == p.ignore)
        return 0;
    if (rank == 0) {
        *weight = known ? weight_of(w, t) : (T)1;
        loss = known ? (T)(1 - p.smoothing) * *weight * x[at + t * p.inner] : infinity_of<T>() - infinity_of<T>();
    }
    if (p.smoothing != 0)
        loss += (T)(p.smoothing / (double)p.classes) * smooth_part(p, x + at, w, rank);
    return -loss;
}

template <class T>
__device__ __forceinline__ void nll_sum(const NllBox &p, const T *x, const void *target, const T *w, void *num,
                                        void *den, double *partial)
{
    const LaneTeam team = { p.lanes };
    double loss = 0, weights = 0;

    for (i64 s = team.first(); s < p.samples; s += team.stride()) {
        T weight;

        loss += nll_part(p, x, target, w, s, team.rank(), &weight);
        weights += weight;
    }
    block_sums<T>(num, den, partial, loss, weights);
}

template <class T>
__device__ __forceinline__ void nll_each(const NllBox &p, const T *x, const void *target, const T *w, T *y)
{
    const LaneTeam team = { p.lanes };

    for (i64 s = team.first(); team.base(s) < p.samples; s += team.stride()) {
        T weight, loss = s < p.samples ? nll_part(p, x, target, w, s, team.rank(), &weight) : 0;

        loss = team.template all<Sum>(loss);
        if (s < p.samples && team.rank() == 0)
            y[s] = loss;
    }
}

/* The gradient by the score of class c of a sample whose label is t, d being that of its loss. */
template <class T> __device__ __forceinline__ T nll_slope(T d, T share, T rest, const T *w, i64 t, i64 c)
{
    return d != 0 && (share != 0 || t == c) ? d * (t == c ? share + rest : share) * weight_of(w, c) : (T)0;
}

/* dx[s, c] where the classes of a sample are whole chunks: each has one label. */
template <class T, class I>
__device__ __forceinline__ void nll_grad_chunks(const NllBox &p, const T *dy, const void *target, const T *w, T *dx,
                                                int scalar)
{
    const int V = Chunk<T>::size;
    const I chunks = (I)(p.classes / V);
    const T share = (T)(p.smoothing / (double)p.classes), rest = (T)(1 - p.smoothing);

    for (i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x; n < p.samples * chunks; n += (i64)gridDim.x * blockDim.x) {
        const I s = (I)n / chunks;
        const i64 c = (i64)((I)n - s * chunks) * V, t = label_of(p, target, s);
        const T d = t == p.ignore || t < 0 || t >= p.classes ? (T)0 : -dy[scalar ? 0 : s];
        Vec<T, V> v;

#pragma unroll
        for (int j = 0; j < V; j++)
            v.at[j] = nll_slope(d, share, rest, w, t, c + j);
        ((Vec<T, V> *)dx)[n] = v;
    }
}

/* dx[o, c, i] as one row of elements; positions are counted in I. */
template <class T, class I>
__device__ __forceinline__ void nll_grad(const NllBox &p, const T *dy, const void *target, const T *w, T *dx,
                                         int scalar)
{
    const int V = Chunk<T>::size, offset = row_offset(dx);
    const i64 n = p.samples * p.classes;
    const I inner = (I)p.inner, classes = (I)p.classes;
    const T share = (T)(p.smoothing / (double)p.classes), rest = (T)(1 - p.smoothing);

    if (p.inner == 1 && p.classes % V == 0 && !offset) {
        nll_grad_chunks<T, I>(p, dy, target, w, dx, scalar);
        return;
    }
    for (i64 at = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * V - offset; at < n;
         at += (i64)gridDim.x * blockDim.x * V) {
        const I first = (I)(at < 0 ? 0 : at), row = first / inner;
        I o = row / classes, c = row - o * classes, i = first - row * inner;
        i64 held = -1, t = 0;
        T d = 0;
        Vec<T, V> v;

#pragma unroll
        for (int j = 0; j < V; j++) {
            const i64 s = (i64)o * p.inner + i;

            v.at[j] = 0;
            if (at + j < 0 || at + j >= n)
                continue;
            if (s != held) {
                t = label_of(p, target, s);
                d = t == p.ignore || t < 0 || t >= p.classes ? (T)0 : -dy[scalar ? 0 : s];
                held = s;
            }
            v.at[j] = nll_slope(d, share, rest, w, t, (i64)c);
            if (++i == inner) {
                i = 0;
                if (++c == classes) {
                    c = 0;
                    o++;
                }
            }
        }
        chunk_store<T, V>(dx, n, at, v);
    }
}

/* ---- right answers ---- */

/* The largest score, of equals the first.  A NaN is the largest when it comes first, else the smallest: no comparison
 * with it holds. */
template <class T> __device__ __forceinline__ void take_score(Best &best, T x, i64 c)
{
    best.take(!is_nan(x) ? key_of(x) : c ? 0 : KEY_FIRST, ~(u64)c);
}

template <class T> __device__ __forceinline__ Best best_part(const NllBox &p, const T *x, int rank)
{
    const int V = Chunk<T>::size;
    Best best = { 0, 0 };

    if (p.inner != 1) {
        for (i64 c = rank; c < p.classes; c += p.lanes)
            take_score(best, x[c * p.inner], c);
        return best;
    }
    for (i64 at = (i64)rank * V - row_offset(x); at < p.classes; at += (i64)p.lanes * V) {
        const Vec<T, V> v = chunk_load<T, V>(x, p.classes, at, (T)0);

#pragma unroll
        for (int j = 0; j < V; j++)
            if (at + j >= 0 && at + j < p.classes)
                take_score(best, v.at[j], at + j);
    }
    return best;
}

template <class T>
__device__ __forceinline__ void accuracy(const NllBox &p, const T *x, const void *target, void *correct, void *counted,
                                         double *partial)
{
    const LaneTeam team = { p.lanes };
    double right = 0, all = 0;

    for (i64 s = team.first(); team.base(s) < p.samples; s += team.stride()) {
        const bool counts = s < p.samples && label_of(p, target, s) != p.ignore;
        Best best = { 0, 0 };

        if (counts)
            best = best_part(p, x + sample_at(p, s), team.rank());
        best = team.template all<First>(best);
        if (counts && team.rank() == 0) {
            right += p.classes && (i64)~best.tie == label_of(p, target, s);
            all++;
        }
    }
    block_sums<i64>(correct, counted, partial, right, all);
}

/* ---- one element against one element ---- */

template <class T> __device__ __forceinline__ T element_loss(LossKind kind, T x, T z)
{
    switch (kind) {
    case LOSS_MSE: return ew::mse(x, z);
    case LOSS_L1: return ew::l1(x, z);
    case LOSS_BCE: return ew::bce(x, z);
    default: return ew::bce_logits(x, z);
    }
}

template <class T>
__device__ __forceinline__ void element_sum(int kind, const T *x, const T *z, i64 n, void *y, double *partial)
{
    const int V = Chunk<T>::size, offset = row_offset(x);
    double sum = 0;

    for (i64 at = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * V - offset; at < n;
         at += (i64)gridDim.x * blockDim.x * V) {
        const Vec<T, V> a = chunk_load<T, V>(x, n, at, (T)0), b = chunk_load<T, V>(z, n, at, (T)0);
        T part = 0;

#pragma unroll
        for (int j = 0; j < V; j++)
            part += at + j >= 0 && at + j < n ? element_loss((LossKind)kind, a.at[j], b.at[j]) : 0;
        sum += part;
    }
    block_sums<T>(y, 0, partial, sum, 0);
}

#define LOSSES(S, T)                                                                                            \
    KERNEL(nll_sum_##S,                                                                                         \
           (const NllBox p, const T *x, const void *target, const T *w, void *num, void *den, double *partial)) \
    {                                                                                                           \
        nll_sum<T>(p, x, target, w, num, den, partial);                                                         \
    }                                                                                                           \
    KERNEL(nll_each_##S, (const NllBox p, const T *x, const void *target, const T *w, T *y))                    \
    {                                                                                                           \
        nll_each<T>(p, x, target, w, y);                                                                        \
    }                                                                                                           \
    KERNEL(nll_grad_##S, (const NllBox p, const T *dy, const void *target, const T *w, T *dx, int scalar))      \
    {                                                                                                           \
        nll_grad<T, u32>(p, dy, target, w, dx, scalar);                                                         \
    }                                                                                                           \
    KERNEL(nll_grad_wide_##S, (const NllBox p, const T *dy, const void *target, const T *w, T *dx, int scalar)) \
    {                                                                                                           \
        nll_grad<T, i64>(p, dy, target, w, dx, scalar);                                                         \
    }                                                                                                           \
    KERNEL(accuracy_##S,                                                                                        \
           (const NllBox p, const T *x, const void *target, void *correct, void *counted, double *partial))     \
    {                                                                                                           \
        accuracy<T>(p, x, target, correct, counted, partial);                                                   \
    }                                                                                                           \
    KERNEL(element_sum_##S, (int kind, const T *x, const T *z, i64 n, void *y, double *partial))                \
    {                                                                                                           \
        element_sum<T>(kind, x, z, n, y, partial);                                                              \
    }

LOSSES(f32, float)
LOSSES(f64, double)
