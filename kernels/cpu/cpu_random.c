/* Dropout on CPUs, vectorised: a Philox block serves four elements, and the blocks are independent. */
#include "graph/ops/random.gen.h"
#include "kernels/cpu/cpu_elementwise.h"
#include "kernels/ref/random_draw.h"

enum { CHUNK = 1 << 14 };

static void draw_one(uint8_t *mask, PhiloxKey key, uint64_t threshold, int64_t global)
{
    *mask = philox_block(key, global / 4).word[global % 4] >= threshold;
}

/* The mask of `n` elements; the first is number `global` of the whole tensor. */
static void cpu_random_draw(uint8_t *mask, PhiloxKey key, uint64_t threshold, int64_t global, int64_t n)
{
    int64_t blocks;

    for (; n > 0 && global % 4; n--)
        draw_one(mask++, key, threshold, global++);
    blocks = n / 4;
#pragma omp simd
    for (int64_t b = 0; b < blocks; b++) {
        const PhiloxBlock w = philox_block(key, global / 4 + b);

        mask[4 * b] = w.word[0] >= threshold;
        mask[4 * b + 1] = w.word[1] >= threshold;
        mask[4 * b + 2] = w.word[2] >= threshold;
        mask[4 * b + 3] = w.word[3] >= threshold;
    }
    for (int64_t i = 4 * blocks; i < n; i++)
        draw_one(mask + i, key, threshold, global + i);
}

#define BODY "kernels/cpu/cpu_random.inc"
#include "kernels/each_type.inc"

/* Draws the mask of chunk c of row o and applies it. */
static void drop_chunk(const RandomDraw *p, PhiloxKey key, const Tensor *in, Tensor *out, int64_t o, int64_t c)
{
    const int64_t from = c * CHUNK, n = p->span.row - from < CHUNK ? p->span.row - from : CHUNK,
                  at = o * p->span.row + from;
    const double scale = dropout_scale(p->ratio);
    uint8_t *mask = (uint8_t *)out[1].data + at;

    cpu_random_draw(mask, key, philox_threshold(p->ratio), o * p->span.global_row + p->span.global_start + from, n);
    if (in[0].dtype == DT_FLOAT32)
        apply_f32((float *)out[0].data + at, (const float *)in[0].data + at, mask, (float)scale, n);
    else
        apply_f64((double *)out[0].data + at, (const double *)in[0].data + at, mask, scale, n);
}

static Status cpu_random_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RandomDraw *p = state;
    const PhiloxKey key = random_key(p, &in[1]);
    const int64_t chunks = (p->span.row + CHUNK - 1) / CHUNK, tasks = p->span.outer * chunks;
    const int threads = p->span.outer * p->span.row < CHUNK && !ctx->grain ? 1 : ctx->n_threads;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < tasks; t++)
        drop_chunk(p, key, in, out, t / chunks, t % chunks);
    return ST_OK;
}

DEFINE_KERNEL(cpu_random_dropout, .op = &op_RandomDropout, .dtypes = DTYPES_F32_F64, .prepare = random_draw_prepare,
              .run = cpu_random_run, .release = free);

static Status cpu_random_prepare_grad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const RowFn fn = in_value(g, n, 0)->dtype == DT_FLOAT32 ? grad_f32 : grad_f64;

    (void)ctx;
    TRY(elementwise_prepare(state, g, n, 2, (const RowFn[]){ fn, fn, fn, fn }));
    ((Elementwise *)*state)->param[0] = dropout_scale(node_float(n, "ratio"));
    return ST_OK;
}

DEFINE_KERNEL(cpu_dropout_grad, .op = &op_DropoutGrad, .dtypes = DTYPES_F32_F64, .prepare = cpu_random_prepare_grad,
              .run = elementwise_run, .release = free);
