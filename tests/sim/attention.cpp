/* Attention and its gradient by the definition (GpuAttention).
 *
 * With S = scale Q K^T (masked), P = softmax(S), O = P V and L = log sum exp S per row:
 *   dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)), dQ = scale dS K, dK = scale dS^T Q, where P = exp(S - L). */
#include "tests/sim/sim.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "tests/sim/numbers.h"

using namespace sim;

namespace
{

template <class T> T dot(const T *a, const T *b, int64_t n)
{
    T sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

template <class T> void add(T *y, T w, const T *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += w * x[i];
}

/* All of one batch and head, converted. */
template <class T> struct Head {
    std::vector<T> q, k, v, o, d_o, dq, dk, dv;
};

int64_t seen(const GpuAttention &d, int64_t i) { return d.causal ? std::min(i + 1, d.tk) : d.tk; }

template <class T> void forward(const GpuAttention &d, Head<T> &h, float *stats)
{
    std::vector<T> p((size_t)d.tk);

    for (int64_t i = 0; i < d.tq; i++) {
        T top = -INFINITY, sum = 0;
        int64_t n = seen(d, i);

        for (int64_t j = 0; j < n; j++) {
            p[(size_t)j] = (T)d.scale * dot(&h.q[(size_t)(i * d.d)], &h.k[(size_t)(j * d.d)], d.d);
            top = std::max(top, p[(size_t)j]);
        }
        for (int64_t j = 0; j < n; j++)
            sum += p[(size_t)j] = std::exp(p[(size_t)j] - top);
        for (int64_t j = 0; j < n; j++)
            add(&h.o[(size_t)(i * d.d)], p[(size_t)j] / sum, &h.v[(size_t)(j * d.d)], d.d);
        stats[i] = (float)(top + std::log(sum));
    }
}

template <class T> void backward(const GpuAttention &d, Head<T> &h, const float *stats)
{
    for (int64_t i = 0; i < d.tq; i++) {
        size_t at = (size_t)(i * d.d);
        T drop = dot(&h.d_o[at], &h.o[at], d.d);

        for (int64_t j = 0; j < seen(d, i); j++) {
            size_t to = (size_t)(j * d.d);
            T p = std::exp((T)d.scale * dot(&h.q[at], &h.k[to], d.d) - (T)stats[i]);
            T ds = (T)d.scale * p * (dot(&h.d_o[at], &h.v[to], d.d) - drop);

            add(&h.dv[to], p, &h.d_o[at], d.d);
            add(&h.dq[at], ds, &h.k[to], d.d);
            add(&h.dk[to], ds, &h.q[at], d.d);
        }
    }
}

template <class T> std::vector<T> get(const GpuAttention &d, const void *p, int64_t at, int64_t n)
{
    return load_all<T>(d.dtype, (const char *)p + (size_t)at * dtype_size(d.dtype), (size_t)n);
}

template <class T> void put(const GpuAttention &d, void *p, int64_t at, const std::vector<T> &v)
{
    for (size_t i = 0; i < v.size(); i++)
        store(d.dtype, p, (size_t)at + i, v[i]);
}

/* Where token `k` of head `i` = (b, h) begins, in a tensor that stands as `which` of ATT_Q to ATT_O. */
int64_t place(const GpuAttention &d, int which, int64_t i, int64_t k)
{
    const GpuHeads &h = d.heads[which];

    return i / d.h * h.batch + k * h.token + i % d.h * h.head;
}

/* A head, as [tokens, D]. */
template <class T> std::vector<T> head(const GpuAttention &d, int which, const void *p, int64_t i)
{
    std::vector<T> v, row;

    for (int64_t k = 0; k < attention_tokens(&d, which); k++) {
        row = get<T>(d, p, place(d, which, i, k), d.d);
        v.insert(v.end(), row.begin(), row.end());
    }
    return v;
}

template <class T> void put_head(const GpuAttention &d, int which, void *p, int64_t i, const std::vector<T> &v)
{
    for (int64_t k = 0; k < attention_tokens(&d, which); k++)
        put(d, p, place(d, which, i, k), std::vector<T>(v.begin() + k * d.d, v.begin() + (k + 1) * d.d));
}

template <class T> void compute(const GpuAttention &d, void *const *buffer)
{
    size_t nq = (size_t)(d.tq * d.d), nk = (size_t)(d.tk * d.d);

    for (int64_t i = 0; i < d.b * d.h; i++) {
        Head<T> h{ head<T>(d, ATT_Q, buffer[ATT_Q], i),
                   head<T>(d, ATT_K, buffer[ATT_K], i),
                   head<T>(d, ATT_V, buffer[ATT_V], i),
                   std::vector<T>(nq),
                   {},
                   std::vector<T>(nq),
                   std::vector<T>(nk),
                   std::vector<T>(nk) };
        float *stats = (float *)buffer[ATT_STATS] + i * d.tq;

        if (d.backward) {
            h.o = head<T>(d, ATT_O, buffer[ATT_O], i);
            h.d_o = head<T>(d, ATT_O, buffer[ATT_DO], i);
            backward(d, h, stats);
            put_head(d, ATT_Q, buffer[ATT_DQ], i, h.dq);
            put_head(d, ATT_K, buffer[ATT_DK], i, h.dk);
            put_head(d, ATT_V, buffer[ATT_DV], i, h.dv);
        } else {
            forward(d, h, stats);
            put_head(d, ATT_O, buffer[ATT_O], i, h.o);
        }
    }
}

/* From the first element to the last of a tensor that stands as `which`. */
size_t extent(const GpuAttention &d, int which)
{
    return (size_t)(place(d, which, d.b * d.h - 1, attention_tokens(&d, which) - 1) + d.d) * dtype_size(d.dtype);
}

/* What a version of cuDNN, or a shape, may lack, as DPEXEC_SIM_REFUSE says. */
Status check_strides(const GpuAttention &d)
{
    const char *text = std::getenv("DPEXEC_SIM_REFUSE");

    for (int i = ATT_Q; i <= ATT_O; i++)
        if (!attention_is_dense(&d, i) && text && std::string(text) == "strides")
            return FAIL(E_UNSUPPORTED, "attention: DPEXEC_SIM_REFUSE=%s", text);
    return ST_OK;
}

} // namespace

Status sim_attention(GpuDevice *d, const GpuAttention *desc, GpuPlan **out, size_t *workspace)
{
    Guard guard(world().lock);
    GpuAttention a = *desc;

    SIM_INJECT("attention");
    if (!dtype_is_float(a.dtype))
        return FAIL(E_UNSUPPORTED, "attention: type %s", dtype_name(a.dtype));
    if (a.b < 1 || a.h < 1 || a.tq < 1 || a.tk < 1 || a.d < 1)
        return FAIL(E_INVALID, "attention: b %lld, h %lld, tq %lld, tk %lld, d %lld", (long long)a.b, (long long)a.h,
                    (long long)a.tq, (long long)a.tk, (long long)a.d);
    TRY(check_strides(a));
    size_t nq = extent(a, ATT_Q), nk = extent(a, ATT_K), nv = extent(a, ATT_V), no = extent(a, ATT_O);
    GpuPlan *p = new GpuPlan{ d, a.backward ? "attention backward" : "attention", {}, ATT_BUFFERS, 1000, 16, {} };
    p->buffers = {
        { ATT_Q, nq }, { ATT_K, nk }, { ATT_V, nv }, { ATT_O, no }, { ATT_STATS, (size_t)(a.b * a.h * a.tq) * 4 }
    };
    if (a.backward)
        p->buffers.insert(p->buffers.end(), { { ATT_DO, no }, { ATT_DQ, nq }, { ATT_DK, nk }, { ATT_DV, nv } });
    p->compute = [=](void *const *buffer) {
        if (a.dtype == DT_FLOAT64)
            compute<double>(a, buffer);
        else
            compute<float>(a, buffer);
    };
    d->objects++;
    *out = p;
    *workspace = p->workspace;
    return ST_OK;
}
