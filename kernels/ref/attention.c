/* ScaledDotProductAttention and its gradient by their definition, one row of scores at a time, in double. */
#include <math.h>

#include "kernels/ref/ref.h"

typedef struct {
    int64_t batch, heads, tq, tk, depth;
    double scale;
    bool causal;
} Plan;

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *q = &in_value(g, n, 0)->shape, *k = &in_value(g, n, 1)->shape;
    size_t row = (size_t)k->dim[1] * sizeof(double);
    Plan *p = malloc(sizeof *p);

    if (!p)
        return FAIL_NOMEM();
    *p = (Plan){ q->dim[0], q->dim[2], q->dim[1], k->dim[1], q->dim[3], node_float(n, "scale"), node_int(n, "causal") };
    ctx->scratch_bytes = row > ctx->scratch_bytes ? row : ctx->scratch_bytes;
    *state = p;
    return ST_OK;
}

/* Columns that row i sees. */
static int64_t seen(const Plan *p, int64_t i) { return p->causal && i + 1 < p->tk ? i + 1 : p->tk; }

/* Element [batch, token, head, 0] of a tensor of `tokens` tokens. */
static int64_t at(const Plan *p, int64_t b, int64_t h, int64_t token, int64_t tokens)
{
    return ((b * tokens + token) * p->heads + h) * p->depth;
}

#define ATTENTION(S, T)                                                                                      \
    static double dot_##S(const T *a, const T *b, int64_t n)                                                 \
    {                                                                                                        \
        double sum = 0;                                                                                      \
        for (int64_t i = 0; i < n; i++)                                                                      \
            sum += (double)a[i] * (double)b[i];                                                              \
        return sum;                                                                                          \
    }                                                                                                        \
    /* exp(scores - their maximum) into `e`; the logarithm of their sum, with the maximum. */                \
    static double row_##S(const Plan *p, const T *q, const T *k, int64_t b, int64_t h, int64_t i, double *e) \
    {                                                                                                        \
        double top = -INFINITY, sum = 0;                                                                     \
        for (int64_t j = 0; j < seen(p, i); j++) {                                                           \
            e[j] = p->scale * dot_##S(q, k + at(p, b, h, j, p->tk), p->depth);                               \
            top = e[j] > top ? e[j] : top;                                                                   \
        }                                                                                                    \
        for (int64_t j = 0; j < seen(p, i); j++)                                                             \
            sum += e[j] = exp(e[j] - top);                                                                   \
        for (int64_t j = 0; j < seen(p, i); j++)                                                             \
            e[j] /= sum;                                                                                     \
        return top + log(sum);                                                                               \
    }                                                                                                        \
    static void forward_##S(const Plan *p, const T *q, const T *k, const T *v, T *y, T *stats, double *e)    \
    {                                                                                                        \
        for (int64_t b = 0; b < p->batch; b++)                                                               \
            for (int64_t h = 0; h < p->heads; h++)                                                           \
                for (int64_t i = 0; i < p->tq; i++) {                                                        \
                    T *row = y + at(p, b, h, i, p->tq);                                                      \
                    *stats++ = (T)row_##S(p, q + at(p, b, h, i, p->tq), k, b, h, i, e);                      \
                    for (int64_t d = 0; d < p->depth; d++) {                                                 \
                        double sum = 0;                                                                      \
                        for (int64_t j = 0; j < seen(p, i); j++)                                             \
                            sum += e[j] * (double)v[at(p, b, h, j, p->tk) + d];                              \
                        row[d] = (T)sum;                                                                     \
                    }                                                                                        \
                }                                                                                            \
    }                                                                                                        \
    /* Of one row i: dS = P (dP - sum(dO * O)), into what it reaches. */                                     \
    static void backward_row_##S(const Plan *p, const T *const in[6], T *const out[3], int64_t b, int64_t h, \
                                 int64_t i, double *e)                                                       \
    {                                                                                                        \
        int64_t qi = at(p, b, h, i, p->tq);                                                                  \
        const T *dy = in[5] + qi;                                                                            \
        double drop = dot_##S(dy, in[3] + qi, p->depth), l = (double)in[4][(b * p->heads + h) * p->tq + i];  \
        for (int64_t j = 0; j < seen(p, i); j++) {                                                           \
            int64_t kj = at(p, b, h, j, p->tk);                                                              \
            double w = exp(p->scale * dot_##S(in[0] + qi, in[1] + kj, p->depth) - l);                        \
            e[j] = p->scale * w * (dot_##S(dy, in[2] + kj, p->depth) - drop);                                \
            for (int64_t d = 0; d < p->depth; d++) {                                                         \
                out[2][kj + d] += (T)(w * (double)dy[d]);                                                    \
                out[1][kj + d] += (T)(e[j] * (double)in[0][qi + d]);                                         \
            }                                                                                                \
        }                                                                                                    \
        for (int64_t d = 0; d < p->depth; d++) {                                                             \
            double sum = 0;                                                                                  \
            for (int64_t j = 0; j < seen(p, i); j++)                                                         \
                sum += e[j] * (double)in[1][at(p, b, h, j, p->tk) + d];                                      \
            out[0][qi + d] = (T)sum;                                                                         \
        }                                                                                                    \
    }                                                                                                        \
    static void backward_##S(const Plan *p, const T *const in[6], T *const out[3], double *e)                \
    {                                                                                                        \
        int64_t keys = p->batch * p->tk * p->heads * p->depth;                                               \
        for (int64_t i = 0; i < keys; i++)                                                                   \
            out[1][i] = out[2][i] = 0;                                                                       \
        for (int64_t b = 0; b < p->batch; b++)                                                               \
            for (int64_t h = 0; h < p->heads; h++)                                                           \
                for (int64_t i = 0; i < p->tq; i++)                                                          \
                    backward_row_##S(p, in, out, b, h, i, e);                                                \
    }                                                                                                        \
    static void run_backward_##S(const Plan *p, const Tensor *in, Tensor *out, double *e)                    \
    {                                                                                                        \
        const T *const from[] = { in[0].data, in[1].data, in[2].data, in[3].data, in[4].data, in[5].data };  \
        T *const to[] = { out[0].data, out[1].data, out[2].data };                                           \
        backward_##S(p, from, to, e);                                                                        \
    }
ATTENTION(f32, float)
ATTENTION(f64, double)

static Status run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    if (in[0].dtype == DT_FLOAT32)
        forward_f32(state, in[0].data, in[1].data, in[2].data, out[0].data, out[1].data, ctx->scratch);
    else
        forward_f64(state, in[0].data, in[1].data, in[2].data, out[0].data, out[1].data, ctx->scratch);
    return ST_OK;
}

static Status run_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    if (in[0].dtype == DT_FLOAT32)
        run_backward_f32(state, in, out, ctx->scratch);
    else
        run_backward_f64(state, in, out, ctx->scratch);
    return ST_OK;
}

DEFINE_KERNEL(ref_attention, .op = &op_ScaledDotProductAttention, .dtypes = DTYPES_F32_F64, .prepare = prepare,
              .run = run_forward, .release = free);
DEFINE_KERNEL(ref_attention_grad, .op = &op_ScaledDotProductAttentionGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare,
              .run = run_backward, .release = free);
