/* Attention forward and backward as the composites of operations that cuDNN's fused engines recognise.
 *
 *   S = scale Q K^T, masked       P = softmax(S)       O = P V       stats = log sum exp S, per row
 *
 * The backward pass (Dao et al., FlashAttention, 2022) makes P again from S and the statistics:
 *
 *   delta = sum(dO * O) per row   P = exp(S - stats)   dV = P^T dO
 *   dP = dO V^T                   dS = scale P (dP - delta)          dK = dS^T Q       dQ = dS K
 *
 * Everything [Tq, Tk] is virtual: it never reaches memory.  delta is a buffer of ours.  dQ is written as one product,
 * not added up by atomics in a float32 buffer: the engines for that keep dS in a workspace and give the same bits every
 * time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/plugin/cudnn.h"

enum { BATCH, HEADS, ROWS, COLS };

/* The shapes of the call.  "t": the last two axes exchanged, by strides. */
typedef struct {
    const GpuAttention *desc;
    CudnnTensor q, k, kt, v, vt, o, scores, scores_t, row, index, seen;
} Shapes;

/* Scores and their rows. */
static CudnnTensor dense(const GpuAttention *a, cudnnDataType_t type, int64_t rows, int64_t cols)
{
    CudnnTensor t = { type, 4, { a->b, a->h, rows, cols }, { 0 } };

    cudnn_strides(&t, false);
    return t;
}

/* Q, K, V, O or its gradient, by `i` of ATT_Q to ATT_O: seen as [B, H, T, D]. */
static CudnnTensor tokens(const GpuAttention *a, int i)
{
    const GpuHeads *h = &a->heads[i];

    return (CudnnTensor){
        cudnn_type(a->dtype), 4, { a->b, a->h, attention_tokens(a, i), a->d }, { h->batch, h->head, h->token, 1 }
    };
}

static CudnnTensor transposed(CudnnTensor t)
{
    int64_t dim = t.dim[ROWS], stride = t.stride[ROWS];

    t.dim[ROWS] = t.dim[COLS];
    t.stride[ROWS] = t.stride[COLS];
    t.dim[COLS] = dim;
    t.stride[COLS] = stride;
    return t;
}

static Shapes read_shapes(const GpuAttention *a)
{
    cudnnDataType_t type = cudnn_type(a->dtype);
    Shapes s = {
        .desc = a, .q = tokens(a, ATT_Q), .k = tokens(a, ATT_K), .v = tokens(a, ATT_V), .o = tokens(a, ATT_O)
    };

    s.kt = transposed(s.k);
    s.vt = transposed(s.v);
    s.scores = dense(a, CUDNN_DATA_FLOAT, a->tq, a->tk);
    s.scores_t = transposed(dense(a, type, a->tq, a->tk));
    s.row = dense(a, CUDNN_DATA_FLOAT, a->tq, 1);
    s.index = dense(a, CUDNN_DATA_INT32, a->tq, a->tk);
    s.seen = dense(a, CUDNN_DATA_BOOLEAN, a->tq, a->tk);
    return s;
}

/* A new virtual tensor of scores. */
static CudnnDescriptor scores(CudnnGraph *g, const Shapes *s) { return cudnn_virtual(g, &s->scores); }

/* mode(x, b) of scores, in float32. */
static CudnnDescriptor cudnn_attention_apply(CudnnGraph *g, const Shapes *s, cudnnPointwiseMode_t mode,
                                             CudnnDescriptor x, CudnnDescriptor b)
{
    CudnnDescriptor y = scores(g, s);

    cudnn_pointwise(g, mode, CUDNN_DATA_FLOAT, x, b, NULL, y);
    return y;
}

/* Column j of row i becomes -inf where j > i. */
static CudnnDescriptor causal(CudnnGraph *g, const Shapes *s, CudnnDescriptor x)
{
    CudnnDescriptor row = cudnn_virtual(g, &s->index), col = cudnn_virtual(g, &s->index),
                    seen = cudnn_virtual(g, &s->seen);
    CudnnDescriptor y = scores(g, s);

    cudnn_gen_index(g, ROWS, x, row);
    cudnn_gen_index(g, COLS, x, col);
    cudnn_pointwise(g, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, col, NULL, seen);
    cudnn_pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x, cudnn_scalar(g, 4, -INFINITY), seen, y);
    return y;
}

/* S = scale Q K^T with the mask; `scale` as it stands in the graph. */
static CudnnDescriptor masked_scores(CudnnGraph *g, const Shapes *s, CudnnDescriptor q, CudnnDescriptor kt,
                                     CudnnDescriptor scale)
{
    CudnnDescriptor product = scores(g, s), scaled;

    cudnn_matmul(g, q, kt, product);
    scaled = cudnn_attention_apply(g, s, CUDNN_POINTWISE_MUL, product, scale);
    return s->desc->causal ? causal(g, s, scaled) : scaled;
}

static void cudnn_attention_forward(CudnnGraph *g, const Shapes *s)
{
    CudnnTensor half = s->scores;
    CudnnDescriptor q = cudnn_tensor(g, &s->q, ATT_Q), kt = cudnn_tensor(g, &s->kt, ATT_K),
                    v = cudnn_tensor(g, &s->v, ATT_V);
    CudnnDescriptor x = masked_scores(g, s, q, kt, cudnn_scalar(g, 4, (float)s->desc->scale));
    CudnnDescriptor max = cudnn_virtual(g, &s->row), sum = cudnn_virtual(g, &s->row), log = cudnn_virtual(g, &s->row),
                    e, p;

    half.type = cudnn_type(s->desc->dtype);
    cudnn_reduce(g, CUDNN_REDUCE_TENSOR_MAX, x, max);
    e = cudnn_attention_apply(g, s, CUDNN_POINTWISE_EXP, cudnn_attention_apply(g, s, CUDNN_POINTWISE_SUB, x, max),
                              NULL);
    cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    cudnn_pointwise(g, CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, sum, NULL, NULL, log);
    cudnn_pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, max, log, NULL, cudnn_tensor(g, &s->row, ATT_STATS));
    p = cudnn_virtual(g, &half);
    cudnn_pointwise(g, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, e, sum, NULL, p);
    cudnn_matmul(g, p, v, cudnn_tensor(g, &s->o, ATT_O));
}

/* delta = sum(dO * O) over each row, in a buffer of the plan. */
static CudnnDescriptor row_products(CudnnGraph *g, const Shapes *s, CudnnDescriptor o, CudnnDescriptor d_o)
{
    CudnnTensor wide = s->o;
    CudnnDescriptor product, sum = cudnn_virtual(g, &s->row), delta = cudnn_scratch(g, &s->row);

    wide.type = CUDNN_DATA_FLOAT;
    product = cudnn_virtual(g, &wide);
    cudnn_pointwise(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, d_o, o, NULL, product);
    cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    cudnn_pointwise(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, sum, cudnn_scalar(g, 4, 1), NULL, delta);
    return delta;
}

/* c = x^T b, x [Tq, Tk] of scores. */
static void transposed_product(CudnnGraph *g, const Shapes *s, CudnnDescriptor x, CudnnDescriptor b, CudnnDescriptor c)
{
    CudnnDescriptor xt = cudnn_virtual(g, &s->scores_t);

    cudnn_reshape(g, x, xt);
    cudnn_matmul(g, xt, b, c);
}

static void backward(CudnnGraph *g, const Shapes *s)
{
    CudnnDescriptor q = cudnn_tensor(g, &s->q, ATT_Q), kt = cudnn_tensor(g, &s->kt, ATT_K),
                    vt = cudnn_tensor(g, &s->vt, ATT_V);
    CudnnDescriptor o = cudnn_tensor(g, &s->o, ATT_O), d_o = cudnn_tensor(g, &s->o, ATT_DO),
                    stats = cudnn_tensor(g, &s->row, ATT_STATS);
    CudnnDescriptor scale = cudnn_scalar(g, 4, (float)s->desc->scale), delta = row_products(g, s, o, d_o), k, p, dp, ds;

    p = cudnn_attention_apply(g, s, CUDNN_POINTWISE_SUB, masked_scores(g, s, q, kt, scale), stats);
    p = cudnn_attention_apply(g, s, CUDNN_POINTWISE_EXP, p, NULL);
    transposed_product(g, s, p, d_o, cudnn_tensor(g, &s->v, ATT_DV));
    dp = scores(g, s);
    cudnn_matmul(g, d_o, vt, dp);
    ds = cudnn_attention_apply(g, s, CUDNN_POINTWISE_MUL, cudnn_attention_apply(g, s, CUDNN_POINTWISE_SUB, dp, delta),
                               p);
    ds = cudnn_attention_apply(g, s, CUDNN_POINTWISE_MUL, ds, scale);
    transposed_product(g, s, ds, q, cudnn_tensor(g, &s->k, ATT_DK));
    k = cudnn_virtual(g, &s->k);
    cudnn_reshape(g, kt, k);
    cudnn_matmul(g, ds, k, cudnn_tensor(g, &s->q, ATT_DQ));
}

/* Appends the strides, which distinguish calls; nothing for tensors without gaps. */
static void add_strides(char *key, size_t size, const GpuAttention *a)
{
    for (int i = ATT_Q; i <= ATT_O; i++) {
        const GpuHeads *h = &a->heads[i];
        const size_t n = strlen(key);

        if (!attention_is_dense(a, i))
            snprintf(key + n, size - n, " %c by %lld %lld %lld", "qkvo"[i], (long long)h -> batch,
                     (long long)h -> token, (long long)h -> head);
    }
}

Status attention_plan(GpuDevice *d, const GpuAttention *desc, GpuPlan **out, size_t *workspace)
{
    CudnnGraph g = { .status = ST_OK };
    Shapes s = read_shapes(desc);
    char key[512];
    CudnnRequest r = { .key = key, .dtype = desc->dtype, .workspace = SIZE_MAX };
    Status st;

    snprintf(key, sizeof key, "attention%s %s b %lld h %lld tq %lld tk %lld d %lld scale %a%s",
             desc->backward ? " gradient" : "", dtype_name(desc->dtype), (long long)desc->b, (long long)desc->h,
             (long long)desc->tq, (long long)desc->tk, (long long)desc->d, desc->scale, desc->causal ? " causal" : "");
    add_strides(key, sizeof key, desc);
    if (desc->backward)
        backward(&g, &s);
    else
        cudnn_attention_forward(&g, &s);
    st = cudnn_plan_make(d, &g, &r, out, workspace);
    cudnn_graph_free(&g);
    return st;
}
