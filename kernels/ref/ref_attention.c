/* ScaledDotProductAttention, PackedAttention and their gradients by their definition, one row of scores at a time, in
 * double. */
#include <math.h>

#include "graph/ops/attention.gen.h"
#include "graph/ops/attention.h"
#include "kernels/ref/ref.h"

static Status ref_attention_prepare_sums(void **state, KernelCtx *ctx, const Graph *g, const Node *n, bool of_head)
{
    AttentionSizes p;
    int64_t sums;
    size_t bytes;

    attention_sizes(&p, g, n);
    sums = p.tk * (1 + (of_head ? 2 * p.depth : 0));
    bytes = (size_t)sums * sizeof(double);
    ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
    return kernel_state(state, &p, sizeof p);
}

/* A row of scores; the gradient sums what reaches the keys and values of a head, too. */
static Status ref_attention_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return ref_attention_prepare_sums(state, ctx, g, n, false);
}

static Status prepare_gradient(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return ref_attention_prepare_sums(state, ctx, g, n, true);
}

/* Columns that row i sees. */
static int64_t seen(const AttentionSizes *p, int64_t i) { return p->causal && i + 1 < p->tk ? i + 1 : p->tk; }

static int64_t at(const AttentionPart *p, int64_t b, int64_t token, int64_t h)
{
    return p->offset + b * p->batch + token * p->token + h * p->head;
}

/* Does another number stand in the place of the score?  Then nothing reaches the query and the key. */
static bool hidden(const AttentionSizes *p, const Tensor *mask, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t *step = p->mask_step;

    if (p->replaced && j > i)
        return true;
    return mask && mask->dtype == DT_BOOL &&
           !((const unsigned char *)mask->data)[b * step[0] + h * step[1] + i * step[2] + j * step[3]];
}

#define T float
#define S(name) name##_f32
#include "kernels/ref/ref_attention.inc"
#undef T
#undef S
#define T double
#define S(name) name##_f64
#include "kernels/ref/ref_attention.inc"
#undef T
#undef S

static Status forward(KernelCtx *ctx, const AttentionSizes *p, const Tensor *in, int k, int v, Tensor *out)
{
    const Tensor *mask = p->mask < 0 ? NULL : &in[p->mask];

    if (in[0].dtype == DT_FLOAT32)
        forward_f32(p, &in[0], &in[k], &in[v], mask, out[0].data, out[1].data, ctx->scratch);
    else
        forward_f64(p, &in[0], &in[k], &in[v], mask, out[0].data, out[1].data, ctx->scratch);
    return ST_OK;
}

static Status backward(KernelCtx *ctx, const AttentionSizes *p, const Tensor *in, const Tensor *const role[6],
                       Tensor *const out[3])
{
    const Tensor *mask = p->mask < 0 ? NULL : &in[p->mask];

    if (in[0].dtype == DT_FLOAT32)
        backward_f32(p, role, mask, out, ctx->scratch);
    else
        backward_f64(p, role, mask, out, ctx->scratch);
    return ST_OK;
}

static Status ref_attention_run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return forward(ctx, state, in, 1, 2, out);
}

static Status run_packed(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return forward(ctx, state, in, 0, 0, out);
}

static Status ref_attention_run_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Tensor *const role[] = { in, in + 1, in + 2, in + 3, in + 4, in + 5 };

    return backward(ctx, state, in, role, (Tensor *const[]){ out, out + 1, out + 2 });
}

static Status run_packed_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Tensor *const role[] = { in, in, in, in + 1, in + 2, in + 3 };

    return backward(ctx, state, in, role, (Tensor *const[]){ out, out, out });
}

#define ATTENTION .dtypes = DTYPES_F32_F64, .prepare = ref_attention_prepare, .release = free
#define GRADIENT .dtypes = DTYPES_F32_F64, .prepare = prepare_gradient, .release = free

DEFINE_KERNEL(ref_attention, .op = &op_ScaledDotProductAttention, ATTENTION, .run = ref_attention_run_forward);
DEFINE_KERNEL(ref_attention_grad, .op = &op_ScaledDotProductAttentionGrad, GRADIENT, .run = ref_attention_run_backward);
DEFINE_KERNEL(ref_packed_attention, .op = &op_PackedAttention, ATTENTION, .run = run_packed);
DEFINE_KERNEL(ref_packed_attention_grad, .op = &op_PackedAttentionGrad, GRADIENT, .run = run_packed_backward);
