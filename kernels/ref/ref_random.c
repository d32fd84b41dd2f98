/* Random operators: Philox for ours, numpy's Mersenne twister for ONNX's Dropout. */
#include <math.h>

#include "graph/ops/random.gen.h"
#include "graph/tensor/draw.h"
#include "kernels/ref/random_draw.h"
#include "kernels/ref/ref.h"

/* ---- keyed by (seed, draw, key, global element) ---- */

Status random_draw_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool dropout = n->op == &op_RandomDropout;
    const RandomDraw p = { .seed = (uint64_t)node_int(n, "seed"),
                           .key = (uint32_t)node_int(n, "key"),
                           .span = random_span(n, value(g, n->out[0])->shape),
                           .ratio = dropout ? node_float(n, "ratio") : 0,
                           .a = dropout ? 0 : node_float(n, "a"),
                           .b = dropout ? 0 : node_float(n, "b"),
                           .normal = !dropout && node_int(n, "normal") };

    (void)ctx;
    return kernel_state(state, &p, sizeof p);
}

/* The random words in the order of the elements. */
typedef struct {
    PhiloxKey key;
    PhiloxBlock block;
    int64_t global; /* the number of the element among those of all parts */
} Words;

static uint32_t next_word(Words *w, const RandomDraw *p, int64_t at)
{
    const int64_t i = at % p->span.row;

    w->global = at / p->span.row * p->span.global_row + p->span.global_start + i;
    if (i == 0 || w->global % 4 == 0)
        w->block = philox_block(w->key, w->global / 4);
    return w->block.word[w->global % 4];
}

#define BODY "kernels/ref/ref_random.inc"
#include "kernels/each_type.inc"

static Status run_random_dropout(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RandomDraw *p = state;
    const uint64_t threshold = philox_threshold(p->ratio);
    const int64_t n = tensor_numel(out);
    Words words = { .key = random_key(p, &in[1]) };
    uint8_t *mask = out[1].data;

    (void)ctx;
    for (int64_t i = 0; i < n; i++)
        mask[i] = next_word(&words, p, i) >= threshold;
    if (in[0].dtype == DT_FLOAT32)
        drop_f32(dropout_scale(p->ratio), in[0].data, mask, out->data, n);
    else
        drop_f64(dropout_scale(p->ratio), in[0].data, mask, out->data, n);
    return ST_OK;
}

DEFINE_KERNEL(ref_random_dropout, .op = &op_RandomDropout, .dtypes = DTYPES_F32_F64, .prepare = random_draw_prepare,
              .run = run_random_dropout, .release = free);

static Status prepare_dropout_grad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const double scale = dropout_scale(node_float(n, "ratio"));

    (void)ctx;
    (void)g;
    return kernel_state(state, &scale, sizeof scale);
}

RUN_FLOAT(run_dropout_grad, drop, *(const double *)state, in[0].data, in[1].data, out->data, tensor_numel(out))

DEFINE_KERNEL(ref_dropout_grad, .op = &op_DropoutGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare_dropout_grad,
              .run = run_dropout_grad, .release = free);

static Status run_random(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RandomDraw *p = state;
    const bool is_float = out->dtype == DT_FLOAT32;
    Words words = { .key = random_key(p, &in[0]) };

    (void)ctx;
    for (int64_t i = 0, n = tensor_numel(out); i < n; i++) {
        const uint32_t word = next_word(&words, p, i);
        const double u = is_float ? philox_uniform_float(word) : philox_uniform(word);

        tensor_set_float(out, i,
                         p->a + (p->normal ? p->b * draw_normal(&words.block, words.global) : (p->b - p->a) * u));
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_random, .op = &op_Random, .prepare = random_draw_prepare, .run = run_random, .release = free);

/* ---- ONNX's Dropout, as its reference implementation computes it: numpy.random.RandomState(seed).uniform() >= ratio
 * ---- */

enum { MT_N = 624, MT_M = 397 };

typedef struct {
    uint32_t word[MT_N];
    int at;
} Twister;

static void twister_seed(Twister *t, uint32_t seed)
{
    for (int i = 0; i < MT_N; i++) {
        t->word[i] = seed;
        seed = 1812433253u * (seed ^ (seed >> 30)) + (uint32_t)i + 1;
    }
    t->at = MT_N;
}

static uint32_t twister_next(Twister *t)
{
    uint32_t y;

    for (int i = 0; t->at == MT_N && i < MT_N; i++) {
        y = (t->word[i] & 0x80000000u) | (t->word[(i + 1) % MT_N] & 0x7fffffffu);
        t->word[i] = t->word[(i + MT_M) % MT_N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    t->at %= MT_N;
    y = t->word[t->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* 53 bits, uniform in [0, 1). */
static double twister_uniform(Twister *t)
{
    uint32_t high = twister_next(t) >> 5, low = twister_next(t) >> 6;

    return (high * 67108864.0 + low) / 9007199254740992.0;
}

/* The state's mode is the seed. */
static Status prepare_dropout(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_mode_prepare(state, g, n, node_int(n, "seed"));
}

static Status run_dropout(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const bool training = ref_in(p, in, 2) && tensor_int(&in[2], 0) != 0, has_mask = ref_out(p, out, 1);
    const double ratio = ref_in(p, in, 1) ? tensor_float(&in[1], 0) : 0.5, scale = dropout_scale(ratio);
    Twister twister;

    (void)ctx;
    twister_seed(&twister, (uint32_t)p->mode);
    for (int64_t i = 0, count = tensor_numel(out); i < count; i++) {
        bool keep = !training || ratio == 0 || twister_uniform(&twister) >= ratio;
        double x = tensor_float(&in[0], i);

        tensor_set_float(&out[0], i, !keep ? 0 : training ? x * scale : x);
        if (has_mask)
            ((uint8_t *)out[1].data)[i] = keep;
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_dropout, .op = &op_Dropout, .dtypes = DTYPES_FLOAT, .prepare = prepare_dropout, .run = run_dropout,
              .release = free);
