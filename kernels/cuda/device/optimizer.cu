/* SGD, Adam and AdamW for many parameters at once, and the norm of many gradients.
 *
 * Everything is read once and written once, in accesses of 16 bytes: with sizeof(T) = s an element moves 3 s bytes (SGD),
 * 5 s (with momentum), 7 s (Adam), s (norm).  Learning rate, step and the gradients' scale are read from device memory, so a
 * captured step can be replayed.  What is the same for all elements is computed in double, and rounded once to T. */
#include "row.cuh"

#include "update.h"

__device__ __forceinline__ float root(float x) { return sqrtf(x); }
__device__ __forceinline__ double root(double x) { return sqrt(x); }

/* The tensor that this block works on. */
__device__ __forceinline__ int tensor_of(const UpdateTable &t)
{
    int low = 0, high = t.n;

    while (high - low > 1) {
        const int middle = (low + high) / 2;

        if (t.block[middle] <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

template <class T> __device__ __forceinline__ bool on_boundary(const void *p) { return (u64)p % 16 == 0; }

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
template <class T, int W, class Rule> __device__ __forceinline__ void update_block(const Rule &rule, const UpdateTensors &t, i64 from, i64 to)
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
    const int W = Chunk<T>::size, i = tensor_of(table);
    const UpdateTensors t = table.tensor[i];
    const i64 from = (i64)(blockIdx.x - table.block[i]) * UPDATE_WORK;
    const i64 to = from + UPDATE_WORK < table.count[i] ? from + UPDATE_WORK : table.count[i];
    const bool even = on_boundary<T>(t.w) && on_boundary<T>(t.g) && on_boundary<T>(t.m) && on_boundary<T>(t.v);
    const i64 whole = even ? from + (to - from) / W * W : from;

    update_block<T, W>(rule, t, from, whole);
    update_block<T, 1>(rule, t, whole, to);
}

template <class T, bool MOMENTUM>
__device__ __forceinline__ void sgd(const UpdateTable &table, const T *lr, const T *scale, double momentum, double decay, int nesterov)
{
    const Sgd<T, MOMENTUM> rule = { *lr, scale ? *scale : (T)1, (T)momentum, (T)decay, nesterov ? (T)1 : (T)0, nesterov ? (T)momentum : (T)1 };

    update<T>(rule, table);
}

template <class T>
__device__ __forceinline__ void adam(const UpdateTable &table, const T *lr, const i64 *steps, const T *scale, double beta1, double beta2,
                                     double eps, double decay, int decoupled)
{
    __shared__ Adam<T> rule;

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
    const int W = Chunk<T>::size, i = tensor_of(table);
    const T *g = (const T *)table.tensor[i].g;
    const i64 from = (i64)(blockIdx.x - table.block[i]) * UPDATE_WORK;
    const i64 to = from + UPDATE_WORK < table.count[i] ? from + UPDATE_WORK : table.count[i];
    const i64 whole = on_boundary<T>(g) ? from + (to - from) / W * W : from;
    const T sum = block_all<Sum>(squares<T, W>(g, from, whole) + squares<T, 1>(g, whole, to));

    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

/* One block. */
template <class T> __device__ __forceinline__ void norm_finish(const double *partial, i64 n, double max_norm, T *norm, T *scale)
{
    double sum = 0, factor;

    for (i64 i = threadIdx.x; i < n; i += blockDim.x)
        sum += partial[i];
    sum = sqrt(block_all<Sum>(sum));
    if (threadIdx.x)
        return;
    factor = max_norm / (sum + 1e-6);
    *norm = (T)sum;
    *scale = (T)(factor > 1 ? 1 : factor);      /* NaN stays NaN */
}

#define OPTIMIZERS(S, T)                                                                                                              \
    KERNEL(sgd_##S, (UpdateTable table, const T *lr, const T *scale, double momentum, double decay, int nesterov))                    \
    {                                                                                                                                 \
        sgd<T, false>(table, lr, scale, momentum, decay, nesterov);                                                                   \
    }                                                                                                                                 \
    KERNEL(sgd_momentum_##S, (UpdateTable table, const T *lr, const T *scale, double momentum, double decay, int nesterov))           \
    {                                                                                                                                 \
        sgd<T, true>(table, lr, scale, momentum, decay, nesterov);                                                                    \
    }                                                                                                                                 \
    KERNEL(adam_##S, (UpdateTable table, const T *lr, const i64 *step, const T *scale, double beta1, double beta2, double eps,        \
                      double decay, int decoupled))                                                                                   \
    {                                                                                                                                 \
        adam<T>(table, lr, step, scale, beta1, beta2, eps, decay, decoupled);                                                         \
    }                                                                                                                                 \
    KERNEL(norm_blocks_##S, (UpdateTable table, double *partial)) { norm_blocks<T>(table, partial); }                                 \
    KERNEL(norm_finish_##S, (const double *partial, i64 n, double max_norm, T *norm, T *scale))                                       \
    {                                                                                                                                 \
        norm_finish<T>(partial, n, max_norm, norm, scale);                                                                            \
    }

OPTIMIZERS(f32, float)
OPTIMIZERS(f64, double)
