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

#define T float
#define S(name) name##_f32
#include "kernels/ref/attention.inc"
#undef T
#undef S
#define T double
#define S(name) name##_f64
#include "kernels/ref/attention.inc"
#undef T
#undef S

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
