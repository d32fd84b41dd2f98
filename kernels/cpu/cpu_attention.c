/* Attention and its gradient: products by blocks of queries, whose scores stay in the cache.  Q, K and V are read, and
 * their gradients written, where they stand, with the row length of their tensors.
 *
 * Where the depth is whole vectors float32 is multiplied by kernels/cpu/tile.h, keys and values being transposed once a
 * head: these products are too small for oneDNN's, which takes what remains.
 *
 * A head of a sample is one thread's, so that results do not depend on the team.  Where later keys are hidden, a block
 * computes no more of them than its last query sees. */
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#include "graph/ops/attention.gen.h"
#include "graph/ops/attention.h"
#include "kernels/cpu/cpu_softmax.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/vmath.h"

enum { BLOCK_ELEMENTS = 32768, ROWS_MOST = 128, ROWS_CAUSAL = 32, ROWS_LEAST = 16, ALIGNED = 64, VECTOR = 16 };
enum { Q, K, V };

typedef struct {
    AttentionSizes sizes;
    int team;
    int64_t rows;       /* of a block */
    int64_t wide;       /* from a row of scores to the next */
    bool tiles;         /* products by tile.h */
    size_t block, each; /* bytes: of a block of scores; of a thread's scratch, two of them and what products need */
} Plan;

/* The tensors and the scratch of a thread. */
typedef struct {
    const Plan *plan;
    const void *in[3], *dy;
    void *out[3], *y, *l; /* y and l are read by the gradient */
    const Tensor *mask;
    void *p, *d, *scratch;
    float *turned[3]; /* of K and V, by tiles */
} Work;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Keys that query i sees. */
static int64_t seen(const AttentionSizes *s, int64_t i) { return s->causal ? least(i + 1, s->tk) : s->tk; }

static int64_t at(const AttentionPart *p, int64_t b, int64_t token, int64_t h)
{
    return p->offset + b * p->batch + token * p->token + h * p->head;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED; }

static Status cpu_attention_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const size_t size = dtype_size(in_value(g, n, 0)->dtype);
    Plan *p = calloc(1, sizeof *p);
    int64_t rows, heads;

    if (!p)
        return FAIL_NOMEM();
    attention_sizes(&p->sizes, g, n);
    rows = BLOCK_ELEMENTS / p->sizes.tk / ROWS_LEAST * ROWS_LEAST;
    rows = least(rows < ROWS_LEAST ? ROWS_LEAST : rows, p->sizes.causal ? ROWS_CAUSAL : ROWS_MOST);
    p->rows = least(rows, p->sizes.tq);
    heads = p->sizes.batch * p->sizes.heads;
    p->team = (int)least(team_size(ctx, heads * p->sizes.tq * p->sizes.tk), heads ? heads : 1);
    p->tiles = size == 4 && p->sizes.depth % TILE_LANES == 0;
    p->wide = (p->sizes.tk + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
    p->block = aligned((size_t)(p->rows * p->wide) * size);
    p->each = 2 * p->block + (size == 8 ? DGEMM_SCRATCH : 0) +
              (p->tiles ? 2 * aligned((size_t)(p->wide * p->sizes.depth) * size) : 0);
    if ((size_t)p->team * p->each > ctx->scratch_bytes)
        ctx->scratch_bytes = (size_t)p->team * p->each;
    *state = p;
    return ST_OK;
}

#define BODY "kernels/cpu/cpu_attention_places.inc"
#include "kernels/each_type.inc"

/* In strips of TILE_COLUMNS tokens [depth, TILE_COLUMNS], the last filled up with zeros. */
static void transpose_part(const Work *w, int i, int64_t b, int64_t h, float *out)
{
    const AttentionSizes *s = &w->plan->sizes;
    const float *x = in_f32(w, i, b, 0, h);

    for (int64_t j = 0; j < w->plan->wide; j += TILE_COLUMNS)
        for (int64_t d = 0; d < s->depth; d++)
            for (int64_t c = j; c < j + TILE_COLUMNS; c++)
                *out++ = c < s->tk ? x[c * s->part[i].token + d] : 0;
}

static void transpose_parts(Work *w, int64_t b, int64_t h)
{
    if (!w->plan->tiles)
        return;
    for (int i = K; i <= (w->dy ? V : K); i++)
        transpose_part(w, i, b, h, w->turned[i]);
}

static Status with_f32(Work *w, int i, int64_t b, int64_t h, int64_t m, int64_t n, const float *a, int64_t lda,
                       float *c)
{
    const AttentionSizes *s = &w->plan->sizes;
    KernelCtx alone = { .n_threads = 1 };

    if (!w->plan->tiles)
        return onednn_sgemm(&alone, false, true, m, n, s->depth, 1, a, lda, in_f32(w, i, b, 0, h), s->part[i].token, 0,
                            c, w->plan->wide);
    for (int64_t j = 0; j < n; j += TILE_COLUMNS)
        tile_product(m, TILE_COLUMNS, s->depth, a, lda, 1, w->turned[i] + j * s->depth, TILE_COLUMNS, false, c + j,
                     w->plan->wide);
    return ST_OK;
}

static Status product_f32(Work *w, bool ta, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                          const float *b, int64_t ldb, bool more, float *c, int64_t ldc)
{
    KernelCtx alone = { .n_threads = 1 };

    if (!w->plan->tiles)
        return onednn_sgemm(&alone, ta, false, m, n, k, 1, a, lda, b, ldb, more, c, ldc);
    tile_product(m, n, k, a, ta ? 1 : lda, ta ? lda : 1, b, ldb, more, c, ldc);
    return ST_OK;
}

static Status with_f64(Work *w, int i, int64_t b, int64_t h, int64_t m, int64_t n, const double *a, int64_t lda,
                       double *c)
{
    const AttentionSizes *s = &w->plan->sizes;

    dgemm(w->scratch, false, true, m, n, s->depth, 1, a, lda, in_f64(w, i, b, 0, h), s->part[i].token, 0, c,
          w->plan->wide);
    return ST_OK;
}

static Status product_f64(Work *w, bool ta, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                          const double *b, int64_t ldb, bool more, double *c, int64_t ldc)
{
    dgemm(w->scratch, ta, false, m, n, k, 1, a, lda, b, ldb, more, c, ldc);
    return ST_OK;
}

#define BODY "kernels/cpu/cpu_attention.inc"
#include "kernels/each_type.inc"

static Status run_heads(Work w, DType type, int64_t first, int64_t end, char *scratch)
{
    const AttentionSizes *s = &w.plan->sizes;
    const size_t block = w.plan->block;

    w.p = scratch;
    w.d = scratch + block;
    w.scratch = w.turned[K] = (void *)(scratch + 2 * block);
    w.turned[V] = w.turned[K] + aligned((size_t)(w.plan->wide * s->depth) * sizeof(float)) / sizeof(float);
    for (int64_t i = first; i < end; i++) {
        const int64_t b = i / s->heads, h = i % s->heads;

        if (type == DT_FLOAT32)
            transpose_parts(&w, b, h);
        TRY(type == DT_FLOAT32 ? head_f32(&w, b, h) : head_f64(&w, b, h));
    }
    return ST_OK;
}

static Status run_all(KernelCtx *ctx, const Work *w, DType type)
{
    const Plan *p = w->plan;
    const int64_t heads = p->sizes.batch * p->sizes.heads;
    TeamFailure failure = { 0 };

    if (!heads || !p->sizes.tq)
        return ST_OK;
#pragma omp parallel for num_threads(p->team) schedule(static, 1)
    for (int t = 0; t < p->team; t++)
        team_note(&failure, run_heads(*w, type, team_begin(heads, t, p->team), team_begin(heads, t + 1, p->team),
                                      (char *)ctx->scratch + (size_t)t * p->each));
    return team_status(&failure);
}

static const Tensor *mask_of(const Plan *p, const Tensor *in) { return p->sizes.mask < 0 ? NULL : &in[p->sizes.mask]; }

static Status cpu_attention_run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Work w = { .plan = state,
                     .in = { in[0].data, in[1].data, in[2].data },
                     .y = out[0].data,
                     .l = out[1].data,
                     .mask = mask_of(state, in) };

    return run_all(ctx, &w, in[0].dtype);
}

static Status cpu_attention_run_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Work w = { .plan = state,
                     .in = { in[0].data, in[1].data, in[2].data },
                     .y = in[3].data,
                     .l = in[4].data,
                     .dy = in[5].data,
                     .out = { out[0].data, out[1].data, out[2].data },
                     .mask = mask_of(state, in) };

    return run_all(ctx, &w, in[0].dtype);
}

static Status run_packed(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Work w = { .plan = state,
                     .in = { in[0].data, in[0].data, in[0].data },
                     .y = out[0].data,
                     .l = out[1].data,
                     .mask = mask_of(state, in) };

    return run_all(ctx, &w, in[0].dtype);
}

static Status run_packed_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Work w = { .plan = state,
                     .in = { in[0].data, in[0].data, in[0].data },
                     .y = in[1].data,
                     .l = in[2].data,
                     .dy = in[3].data,
                     .out = { out[0].data, out[0].data, out[0].data },
                     .mask = mask_of(state, in) };

    return run_all(ctx, &w, in[0].dtype);
}

/* Sizes and row lengths that oneDNN takes; without queries there are no gradients of keys to write. */
static bool cpu_attention_supports(const Graph *g, const Node *n)
{
    AttentionSizes s;

    attention_sizes(&s, g, n);
    for (int i = 0; i < 3; i++)
        if (s.part[i].token > INT32_MAX)
            return false;
    return s.tq > 0 && s.depth > 0 && s.heads > 0 && s.tk <= INT32_MAX;
}

#define ATTENTION \
    .dtypes = DTYPES_F32_F64, .supports = cpu_attention_supports, .prepare = cpu_attention_prepare, .release = free

DEFINE_KERNEL(cpu_attention, .op = &op_ScaledDotProductAttention, ATTENTION, .run = cpu_attention_run_forward);
DEFINE_KERNEL(cpu_attention_grad, .op = &op_ScaledDotProductAttentionGrad, ATTENTION,
              .run = cpu_attention_run_backward);
DEFINE_KERNEL(cpu_packed_attention, .op = &op_PackedAttention, ATTENTION, .run = run_packed);
DEFINE_KERNEL(cpu_packed_attention_grad, .op = &op_PackedAttentionGrad, ATTENTION, .run = run_packed_backward);
