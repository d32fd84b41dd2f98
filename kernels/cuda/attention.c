/* Attention and its gradient as prepared calls of the library, in 16-bit floats: scores stay on chip. */
#include <math.h>
#include <stdlib.h>

#include "graph/ops/attention.h"
#include "kernels/cuda/cuda.h"

enum { DEPTH_STEP = 8, DEPTH_MOST = 128 }; /* of what the library's kernels take, forward and backward */

typedef struct {
    const CudaDriver *driver;
    GpuPlan *plan;
} State;

static bool fits(const Graph *g, const Node *n)
{
    const Shape *q = in_value(g, n, 0)->shape, *k = in_value(g, n, 1)->shape;

    if (has_in(n, attention_mask(n)) || node_int(n, "safe") || node_float(n, "later") != -INFINITY)
        return false;
    for (int i = 0; i < 4; i++)
        if (q->dim[i] < 1 || q->dim[i] > INT32_MAX || k->dim[i] < 1 || k->dim[i] > INT32_MAX)
            return false;
    return q->dim[3] % DEPTH_STEP == 0 && q->dim[3] <= DEPTH_MOST;
}

static void release(void *state)
{
    State *s = state;

    s->driver->plan_free(s->plan);
    free(s);
}

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *q = in_value(g, n, 0), *k = in_value(g, n, 1);
    GpuAttention d = { .dtype = q->dtype,
                       .b = q->shape->dim[0],
                       .h = q->shape->dim[2],
                       .tq = q->shape->dim[1],
                       .tk = k->shape->dim[1],
                       .d = q->shape->dim[3],
                       .scale = node_float(n, "scale"),
                       .causal = node_int(n, "causal"),
                       .backward = n->op == &op_ScaledDotProductAttentionGrad };
    State *s = calloc(1, sizeof *s);
    size_t workspace;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->driver = cuda_driver(ctx);
    if ((st = cuda_check(ctx, s->driver->attention(ctx->gpu, &d, &s->plan, &workspace)))) {
        free(s);
        return status_prefix(st, "%s", node_text(g, n));
    }
    ctx->scratch_bytes = workspace > ctx->scratch_bytes ? workspace : ctx->scratch_bytes;
    *state = s;
    return ST_OK;
}

static Status run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    State *s = state;
    void *buffers[ATT_BUFFERS] = { [ATT_Q] = in[0].data,
                                   [ATT_K] = in[1].data,
                                   [ATT_V] = in[2].data,
                                   [ATT_O] = out[0].data,
                                   [ATT_STATS] = out[1].data };

    TRY_CUDA(ctx, plan_run(ctx->stream, s->plan, buffers, ctx->scratch));
    return ST_OK;
}

static Status run_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    State *s = state;
    void *buffers[ATT_BUFFERS] = { [ATT_Q] = in[0].data,   [ATT_K] = in[1].data,     [ATT_V] = in[2].data,
                                   [ATT_O] = in[3].data,   [ATT_STATS] = in[4].data, [ATT_DO] = in[5].data,
                                   [ATT_DQ] = out[0].data, [ATT_DK] = out[1].data,   [ATT_DV] = out[2].data };

    TRY_CUDA(ctx, plan_run(ctx->stream, s->plan, buffers, ctx->scratch));
    return ST_OK;
}

#define HALF \
    .dtypes = DTYPE_BIT(DT_FLOAT16) | DTYPE_BIT(DT_BFLOAT16), .supports = fits, .prepare = prepare, .release = release

DEFINE_KERNEL(cuda_attention, .op = &op_ScaledDotProductAttention, HALF, .run = run_forward);
DEFINE_KERNEL(cuda_attention_grad, .op = &op_ScaledDotProductAttentionGrad, HALF, .run = run_backward);
