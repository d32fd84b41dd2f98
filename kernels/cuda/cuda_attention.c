/* Attention and its gradient as prepared calls of the library, in 16-bit floats: scores stay on chip.
 *
 * The library reads Q, K and V of PackedAttention where they stand in the packed tensor, and writes their gradients
 * there.  Where it has no engine for such strides, tensors without gaps in scratch stand in for them, copied before or
 * behind the call. */
#include <math.h>
#include <stdlib.h>

#include "graph/ops/attention.gen.h"
#include "graph/ops/attention.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cuda_move.h"

enum { DEPTH_STEP = 8, DEPTH_MOST = 128 }; /* depths that the library's kernels take, forward and backward */
enum { SCRATCH_STEP = 256 };
enum { TENSORS = ATT_O + 1 }; /* Q, K, V, O; a gradient stands as its value */

/* A copy in scratch that stands in for a buffer of the call. */
typedef struct {
    bool used;
    size_t at; /* in scratch */
    MovePlan move;
} Copy;

typedef struct {
    const CudaDriver *driver;
    GpuPlan *plan;
    bool packed, backward;
    size_t offset[3];       /* bytes in front of the first of Q, K, V in their tensors, and of their gradients */
    Copy copy[ATT_BUFFERS]; /* none is used where the library takes the strides */
} State;

static bool cuda_attention_fits(const Graph *g, const Node *n)
{
    AttentionSizes a;

    attention_sizes(&a, g, n);
    if (a.mask >= 0 || a.safe || a.replaced || a.depth % DEPTH_STEP || a.depth > DEPTH_MOST)
        return false;
    const int64_t sizes[] = { a.batch, a.tq, a.tk, a.heads, a.depth };

    for (int i = 0; i < 5; i++)
        if (sizes[i] < 1 || sizes[i] > INT32_MAX)
            return false;
    return true;
}

static void cuda_attention_release(void *state)
{
    State *s = state;

    if (s->plan)
        s->driver->plan_free(s->plan);
    free(s);
}

static GpuHeads heads_of(const AttentionPart *p) { return (GpuHeads){ p->batch, p->token, p->head }; }

static GpuAttention cuda_attention_describe(const AttentionSizes *a, DType dtype, bool backward)
{
    return (GpuAttention){ .dtype = dtype,
                           .b = a->batch,
                           .h = a->heads,
                           .tq = a->tq,
                           .tk = a->tk,
                           .d = a->depth,
                           .heads = { heads_of(&a->part[0]), heads_of(&a->part[1]), heads_of(&a->part[2]),
                                      heads_of(&a->y) },
                           .scale = a->scale,
                           .causal = a->causal,
                           .backward = backward };
}

/* Which of Q, K, V, O a buffer stands as. */
static int tensor_of(int buffer) { return buffer < ATT_STATS ? buffer : buffer == ATT_DO ? ATT_O : buffer - ATT_DQ; }

static bool is_result(int buffer, bool backward) { return backward ? buffer >= ATT_DQ : buffer == ATT_O; }

/* Plans the copy of a buffer that has gaps, in scratch from *end on. */
static Status prepare_copy(State *s, KernelCtx *ctx, const GpuAttention *d, int buffer, size_t *end)
{
    const int i = tensor_of(buffer);
    const GpuHeads gaps = d->heads[i], dense = attention_dense(d, i);
    const bool result = is_result(buffer, d->backward);
    const GpuHeads to = result ? gaps : dense, from = result ? dense : gaps;
    const MoveDims dims = { .rank = 4,
                            .dim = { d->b, attention_tokens(d, i), d->h, d->d },
                            .to = { to.batch, to.token, to.head, 1 },
                            .from = { from.batch, from.token, from.head, 1 } };
    const size_t size = dtype_size(d->dtype);
    Copy *c = &s->copy[buffer];

    if (attention_is_dense(d, i))
        return ST_OK;
    *c = (Copy){ .used = true, .at = (*end + SCRATCH_STEP - 1) / SCRATCH_STEP * SCRATCH_STEP };
    *end = c->at + (size_t)(dense.batch * d->b) * size;
    move_plan(&c->move, size, &dims);
    return move_prepare(&c->move, ctx);
}

/* The call for tensors without gaps, and the copies that make them. */
static Status plan_copied(State *s, KernelCtx *ctx, const GpuAttention *d, size_t *scratch)
{
    GpuAttention dense = *d;

    for (int i = 0; i < TENSORS; i++)
        dense.heads[i] = attention_dense(d, i);
    TRY(cuda_check(ctx, s->driver->attention(ctx->gpu, &dense, &s->plan, scratch)));
    for (int i = 0; i < (d->backward ? ATT_BUFFERS : ATT_STATS); i++)
        if (i != ATT_STATS)
            TRY(prepare_copy(s, ctx, d, i, scratch));
    return ST_OK;
}

static Status plan(State *s, KernelCtx *ctx, const GpuAttention *d, size_t *scratch)
{
    const Status st = s->driver->attention(ctx->gpu, d, &s->plan, scratch);

    return st == E_UNSUPPORTED && s->packed ? plan_copied(s, ctx, d, scratch) : cuda_check(ctx, st);
}

static Status cuda_attention_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const DType dtype = in_value(g, n, 0)->dtype;
    State *s = calloc(1, sizeof *s);
    AttentionSizes a;
    GpuAttention d;
    size_t scratch;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    attention_sizes(&a, g, n);
    s->driver = cuda_driver(ctx);
    s->packed = attention_is_packed(n);
    s->backward = n->op == &op_ScaledDotProductAttentionGrad || n->op == &op_PackedAttentionGrad;
    for (int i = 0; i < 3; i++)
        s->offset[i] = (size_t)a.part[i].offset * dtype_size(dtype);
    d = cuda_attention_describe(&a, dtype, s->backward);
    if ((st = plan(s, ctx, &d, &scratch))) {
        cuda_attention_release(s);
        return status_prefix(st, "%s", node_text(g, n));
    }
    ctx->scratch_bytes = scratch > ctx->scratch_bytes ? scratch : ctx->scratch_bytes;
    *state = s;
    return ST_OK;
}

/* Inputs q, k, v or x, of the gradient then y, l, dy; outputs y, l, of the gradient dq, dk, dv or dx. */
static void find_buffers(void *buffers[ATT_BUFFERS], const State *s, const Tensor *in, const Tensor *out)
{
    const Tensor *rest = in + (s->packed ? 1 : 3);

    for (int i = 0; i < 3; i++)
        buffers[ATT_Q + i] = (char *)in[s->packed ? 0 : i].data + s->offset[i];
    buffers[ATT_O] = s->backward ? rest[0].data : out[0].data;
    buffers[ATT_STATS] = s->backward ? rest[1].data : out[1].data;
    if (!s->backward)
        return;
    buffers[ATT_DO] = rest[2].data;
    for (int i = 0; i < 3; i++)
        buffers[ATT_DQ + i] = (char *)out[s->packed ? 0 : i].data + s->offset[i];
}

static Status cuda_attention_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    void *buffers[ATT_BUFFERS] = { NULL }, *outside[ATT_BUFFERS];

    find_buffers(buffers, s, in, out);
    for (int i = 0; i < ATT_BUFFERS; i++) {
        outside[i] = buffers[i];
        if (s->copy[i].used)
            buffers[i] = (char *)ctx->scratch + s->copy[i].at;
        if (s->copy[i].used && !is_result(i, s->backward))
            TRY(move_run(ctx, &s->copy[i].move, buffers[i], outside[i]));
    }
    TRY_CUDA(ctx, plan_run(ctx->stream, s->plan, buffers, ctx->scratch));
    for (int i = 0; i < ATT_BUFFERS; i++)
        if (s->copy[i].used && is_result(i, s->backward))
            TRY(move_run(ctx, &s->copy[i].move, outside[i], buffers[i]));
    return ST_OK;
}

#define HALF                                                                                   \
    .dtypes = DTYPE_BIT(DT_FLOAT16) | DTYPE_BIT(DT_BFLOAT16), .supports = cuda_attention_fits, \
    .prepare = cuda_attention_prepare, .run = cuda_attention_run, .release = cuda_attention_release

DEFINE_KERNEL(cuda_attention, .op = &op_ScaledDotProductAttention, HALF);
DEFINE_KERNEL(cuda_attention_grad, .op = &op_ScaledDotProductAttentionGrad, HALF);
DEFINE_KERNEL(cuda_packed_attention, .op = &op_PackedAttention, HALF);
DEFINE_KERNEL(cuda_packed_attention_grad, .op = &op_PackedAttentionGrad, HALF);
