/* SGD, Adam and AdamW for many parameters at once, the norm of many gradients, whether they are finite, and the scale
 * of the loss.
 *
 * Everything is read once and written once, in accesses of 16 bytes: with sizeof(T) = s an element moves 3 s bytes
 * (SGD), 5 s (with momentum), 7 s (Adam), s (norm, finite).  Learning rate, step, the gradients' scale and whether to
 * update at all
 * (`apply`; NULL: yes) are read from device memory, so a captured step can be replayed.  What is the same for all
 * elements is computed in double, and rounded once to T. */
#include "math.cuh"
#include "row.cuh"
#include "update.cuh"

/* ---- rules: next values of w, m, v for the gradient g ---- */

template <class T, bool MOMENTUM> struct Sgd {
    static const bool uses_m = MOMENTUM, uses_v = false;
    T lr, scale, mu, decay, direct, through;

    __device__ __forceinline__ void step(T &w, T g, T &m, T &) const
    {
        const T d = g * scale + decay * w;

        m = MOMENTUM ? mu * m + d : d;
        w -= lr * (MOMENTUM ? direct * d + through * m : d);
    }
};

template <class T> struct Adam {
    static const bool uses_m = true, uses_v = true;
    T scale, size, root_v, eps, b1, c1, b2, c2, keep, decay;

    __device__ __forceinline__ void step(T &w, T g, T &m, T &v) const
    {
        const T d = g * scale + decay * w;

        m = b1 * m + c1 * d;
        v = b2 * v + c2 * d * d;
        w = w * keep - size * m / (root(v) / root_v + eps);
    }
};

/* W elements an access, two accesses of each tensor under way; `from` is the block's first element. */
template <class T, int W, class Rule>
__device__ __forceinline__ void update_block(const Rule &rule, const UpdateTensor &t, i64 from, i64 to)
{
    enum { FLIGHT = 2 };
    T *w = (T *)t.w, *m = (T *)t.m, *v = (T *)t.v;
    const T *g = (const T *)t.g;
    const i64 step = (i64)blockDim.x * W;

    for (i64 i = from + threadIdx.x * W; i < to; i += FLIGHT * step) {
        Vec<T, W> ws[FLIGHT], gs[FLIGHT], ms[FLIGHT], vs[FLIGHT];

#pragma unroll
        for (int f = 0; f < FLIGHT; f++)
            if (i + f * step < to) {
                ws[f] = *(const Vec<T, W> *)(w + i + f * step);
                gs[f] = *(const Vec<T, W> *)(g + i + f * step);
                if (Rule::uses_m)
                    ms[f] = *(const Vec<T, W> *)(m + i + f * step);
                if (Rule::uses_v)
                    vs[f] = *(const Vec<T, W> *)(v + i + f * step);
            }
#pragma unroll
        for (int f = 0; f < FLIGHT; f++)
            if (i + f * step < to) {
#pragma unroll
                for (int j = 0; j < W; j++)
                    rule.step(ws[f].at[j], gs[f].at[j], ms[f].at[j], vs[f].at[j]);
                *(Vec<T, W> *)(w + i + f * step) = ws[f];
                if (Rule::uses_m)
                    *(Vec<T, W> *)(m + i + f * step) = ms[f];
                if (Rule::uses_v)
                    *(Vec<T, W> *)(v + i + f * step) = vs[f];
            }
    }
}

template <class T, class Rule> __device__ __forceinline__ void update(const Rule &rule, const UpdateTable &table)
{
    const int W = Chunk<T>::size;
    const UpdateSpan s(table);
    const UpdateTensor &t = s.t;
    const bool even = on_boundary(t.w) && on_boundary(t.g) && on_boundary(t.m) && on_boundary(t.v);
    const i64 whole = even ? s.from + (s.to - s.from) / W * W : s.from;

    update_block<T, W>(rule, t, s.from, whole);
    update_block<T, 1>(rule, t, whole, s.to);
}

template <class T, bool MOMENTUM>
__device__ __forceinline__ void sgd(const UpdateTable &table, const T *lr, const T *scale, const bool *apply,
                                    double momentum, double decay, int nesterov)
{
    if (apply && !*apply)
        return;

    const Sgd<T, MOMENTUM> rule = { *lr,      scale ? *scale : (T)1,  (T)momentum,
                                    (T)decay, nesterov ? (T)1 : (T)0, nesterov ? (T)momentum : (T)1 };

    update<T>(rule, table);
}

template <class T>
__device__ __forceinline__ void adam(const UpdateTable &table, const T *lr, const i64 *steps, const T *scale,
                                     const bool *apply, double beta1, double beta2, double eps, double decay,
                                     int decoupled)
{
    __shared__ Adam<T> rule;

    if (apply && !*apply)
        return;
    if (threadIdx.x == 0) {
        const double rate = *lr, t = (double)*steps + 1;

        rule.scale = scale ? *scale : (T)1;
        rule.size = (T)(rate / (1 - pow(beta1, t)));
        rule.root_v = (T)sqrt(1 - pow(beta2, t));
        rule.eps = (T)eps;
        rule.b1 = (T)beta1;
        rule.c1 = (T)(1 - beta1);
        rule.b2 = (T)beta2;
        rule.c2 = (T)(1 - beta2);
        rule.keep = (T)(decoupled ? 1 - rate * decay : 1);
        rule.decay = (T)(decoupled ? 0 : decay);
    }
    __syncthreads();
    update<T>(rule, table);
}

/* The gradient's elements that this block works on, and how many of them go in accesses of 16 bytes. */
template <class T> struct Span {
    const T *g;
    i64 from, whole, to;

    __device__ __forceinline__ explicit Span(const UpdateTable &table)
    {
        const int W = Chunk<T>::size;
        const UpdateSpan s(table);

        g = (const T *)s.t.g;
        from = s.from;
        to = s.to;
        whole = on_boundary(g) ? from + (to - from) / W * W : from;
    }
};

/* ---- norm: a block's sum of squares in T, the sum over blocks in double in their order ---- */

template <class T, int W> __device__ __forceinline__ T squares(const T *g, i64 from, i64 to)
{
    T sum = 0;

#pragma unroll 4
    for (i64 i = from + threadIdx.x * W; i < to; i += blockDim.x * W) {
        const Vec<T, W> v = *(const Vec<T, W> *)(g + i);

#pragma unroll
        for (int j = 0; j < W; j++)
            sum += v.at[j] * v.at[j];
    }
    return sum;
}

template <class T> __device__ __forceinline__ void norm_blocks(const UpdateTable &table, double *partial)
{
    const int W = Chunk<T>::size;
    const Span<T> s(table);
    const T sum = block_all<Sum>(squares<T, W>(s.g, s.from, s.whole) + squares<T, 1>(s.g, s.whole, s.to));

    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

/* One block.  by: what the gradients are multiplied by; NULL: 1. */
template <class T>
__device__ __forceinline__ void norm_finish(const double *partial, i64 n, double max_norm, const T *by, T *norm,
                                            T *scale)
{
    const double times = by ? (double)*by : 1.0;
    double sum = 0, factor;

    for (i64 i = threadIdx.x; i < n; i += blockDim.x)
        sum += partial[i];
    sum = sqrt(block_all<Sum>(sum)) * (times < 0 ? -times : times);
    if (threadIdx.x)
        return;
    factor = max_norm / (sum + 1e-6);
    *norm = (T)sum;
    *scale = (T)(times * (factor > 1 ? 1 : factor)); /* NaN stays NaN */
}

/* ---- finite: 1 from a block that holds an element which is not, then from all of them ---- */

/* x - x is 0 for finite x alone. */
template <class T, int W> __device__ __forceinline__ int any_bad(const T *g, i64 from, i64 to)
{
    int bad = 0;

#pragma unroll 4
    for (i64 i = from + threadIdx.x * W; i < to; i += blockDim.x * W) {
        const Vec<T, W> v = *(const Vec<T, W> *)(g + i);

#pragma unroll
        for (int j = 0; j < W; j++)
            bad |= !(v.at[j] - v.at[j] == (T)0);
    }
    return bad;
}

template <class T> __device__ __forceinline__ void finite_blocks(const UpdateTable &table, int *partial)
{
    const int W = Chunk<T>::size;
    const Span<T> s(table);
    const int bad = block_all<Larger>(any_bad<T, W>(s.g, s.from, s.whole) | any_bad<T, 1>(s.g, s.whole, s.to));

    if (threadIdx.x == 0)
        partial[blockIdx.x] = bad;
}

/* One block. */
__device__ __forceinline__ void finite_finish(const int *partial, i64 n, bool *ok)
{
    int bad = 0;

    for (i64 i = threadIdx.x; i < n; i += blockDim.x)
        bad |= partial[i];
    bad = block_all<Larger>(bad);
    if (threadIdx.x == 0)
        *ok = !bad;
}

/* ---- the loss's scale: see LossScaleUpdate, graph/ops/optimizer.c ---- */

/* One thread works.  The bounds are those of normal float32 numbers; results may lie over their inputs. */
template <class T>
__device__ __forceinline__ void loss_scale(const T *scale, const i64 *good, const bool *ok, T *next_scale,
                                           i64 *next_good, double growth, double backoff, i64 interval)
{
    const double least = 1.17549435082228750797e-38, most = 3.40282346638528859812e+38, now = *scale;
    i64 count = *ok ? *good + 1 : 0;
    double next = *ok ? now : now * backoff;

    if (threadIdx.x)
        return;
    if (*ok && count == interval) {
        next = now * growth;
        count = 0;
    }
    *next_scale = (T)(next >= least && next <= most ? next : now);
    *next_good = count;
}

#define OPTIMIZERS(S, T)                                                                                               \
    KERNEL(sgd_##S, (UpdateTable table, const T *lr, const T *scale, const bool *apply, double momentum, double decay, \
                     int nesterov))                                                                                    \
    {                                                                                                                  \
        sgd<T, false>(table, lr, scale, apply, momentum, decay, nesterov);                                             \
    }                                                                                                                  \
    KERNEL(sgd_momentum_##S, (UpdateTable table, const T *lr, const T *scale, const bool *apply, double momentum,      \
                              double decay, int nesterov))                                                             \
    {                                                                                                                  \
        sgd<T, true>(table, lr, scale, apply, momentum, decay, nesterov);                                              \
    }                                                                                                                  \
    KERNEL(adam_##S, (UpdateTable table, const T *lr, const i64 *step, const T *scale, const bool *apply,              \
                      double beta1, double beta2, double eps, double decay, int decoupled))                            \
    {                                                                                                                  \
        adam<T>(table, lr, step, scale, apply, beta1, beta2, eps, decay, decoupled);                                   \
    }                                                                                                                  \
    KERNEL(norm_blocks_##S, (UpdateTable table, double *partial)) { norm_blocks<T>(table, partial); }                  \
    KERNEL_OF(ROW_BLOCK, norm_finish_##S,                                                                              \
              (const double *partial, i64 n, double max_norm, const T *by, T *norm, T *scale))                         \
    {                                                                                                                  \
        norm_finish<T>(partial, n, max_norm, by, norm, scale);                                                         \
    }                                                                                                                  \
    KERNEL(finite_blocks_##S, (UpdateTable table, int *partial)) { finite_blocks<T>(table, partial); }                 \
    KERNEL_OF(ROW_BLOCK, finite_finish_##S, (const int *partial, i64 n, bool *ok)) { finite_finish(partial, n, ok); }  \
    KERNEL(loss_scale_##S, (const T *scale, const i64 *good, const bool *ok, T *next_scale, i64 *next_good,            \
                            double growth, double backoff, i64 interval))                                              \
    {                                                                                                                  \
        loss_scale<T>(scale, good, ok, next_scale, next_good, growth, backoff, interval);                              \
    }

OPTIMIZERS(f32, float)
OPTIMIZERS(f64, double)
