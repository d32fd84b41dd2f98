/* LayerNormalization and its gradient by rows.  Consecutive rows are a part; the gradients of scale and bias are
 * summed by parts, as many whatever the team, and then over the parts in order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/layernorm.gen.h"
#include "kernels/backend.h"
#include "kernels/cpu/team.h"
#include "kernels/ref/layer_norm.h"

enum { PART_GRAINS = 4 }; /* of TEAM_GRAIN elements, in a part of the gradient */

static Status cpu_layernorm_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const LayerNorm p = layer_norm_read(g, n);

    (void)ctx;
    return kernel_state(state, &p, sizeof p);
}

static int parts_of(const LayerNorm *p) { return team_parts(p->rows * p->n / PART_GRAINS); }

static Status cpu_layernorm_prepare_backward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const LayerNorm p = layer_norm_read(g, n);
    const size_t bytes = (size_t)parts_of(&p) * 2 * (size_t)p.n * sizeof(double);

    if (bytes > ctx->scratch_bytes)
        ctx->scratch_bytes = bytes;
    return kernel_state(state, &p, sizeof p);
}

#define SIMD_SUM(...) \
    _Pragma("omp simd reduction(+ : sum, more)") for (int64_t i = 0; i < p->n; i++) { __VA_ARGS__ }
#define EACH_PART \
    _Pragma("omp parallel for num_threads(team) schedule(static)") for (int part = 0; part < parts; part++)
#define ROWS(p) for (int64_t r = team_begin(p->rows, part, parts); r < team_begin(p->rows, part + 1, parts); r++)

/* dx = inv * (h - mean(h) - xhat * mean(h * xhat)) with h = dy * scale; plus the added tensor. */
#define BODY "kernels/cpu/cpu_layernorm.inc"
#include "kernels/each_type.inc"

static Status cpu_layernorm_run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const LayerNorm *p = state;
    const int team = team_size(ctx, p->rows * p->n);
    const void *bias = p->has_bias ? in[2].data : NULL;
    void *mean = p->has_mean ? out[1].data : NULL, *inv = p->has_inv ? out[2].data : NULL;

    if (in[0].dtype == DT_FLOAT32)
        forward_f32(p, team, in[0].data, in[1].data, bias, out[0].data, mean, inv);
    else
        forward_f64(p, team, in[0].data, in[1].data, bias, out[0].data, mean, inv);
    return ST_OK;
}

static Status cpu_layernorm_run_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const LayerNorm *p = state;
    const int team = team_size(ctx, p->rows * p->n), parts = parts_of(p);

    if (in[0].dtype == DT_FLOAT32)
        backward_f32(p, team, parts, ctx->scratch, in, out);
    else
        backward_f64(p, team, parts, ctx->scratch, in, out);
    return ST_OK;
}

static bool cpu_layernorm_supports(const Graph *g, const Node *n)
{
    return layer_norm_full_size(g, n) && shape_numel(in_value(g, n, 1)->shape) > 0;
}

static bool not_empty(const Graph *g, const Node *n) { return shape_numel(in_value(g, n, 2)->shape) > 0; }

DEFINE_KERNEL(cpu_layer_normalization, .op = &op_LayerNormalization, .dtypes = DTYPES_F32_F64,
              .supports = cpu_layernorm_supports, .prepare = cpu_layernorm_prepare, .run = cpu_layernorm_run_forward,
              .release = free);
DEFINE_KERNEL(cpu_layer_norm_grad, .op = &op_LayerNormGrad, .dtypes = DTYPES_F32_F64, .supports = not_empty,
              .prepare = cpu_layernorm_prepare_backward, .run = cpu_layernorm_run_backward, .release = free);
