/* LayerNormalization and its gradient by rows.  Consecutive rows are a part; the gradients of scale and bias are
 * summed by parts, as many whatever the team, and then over the parts in order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/layernorm.h"
#include "graph/ops/layernorm.gen.h"
#include "kernels/backend.h"
#include "kernels/cpu/team.h"

enum { PART_GRAINS = 4 }; /* of TEAM_GRAIN elements, in a part of the gradient */

typedef struct {
    int64_t rows, n;
    double epsilon;
    int team, parts;
    bool has_bias, has_mean, has_inv, has_added;
} Plan;

static Status cpu_layernorm_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int axis = (int)node_int(n, "axis");
    Plan p = { .rows = shape_count(x, 0, axis),
               .n = shape_count(x, axis, x->rank),
               .epsilon = node_float(n, "epsilon"),
               .team = team_size(ctx->n_threads, shape_numel(x)),
               .has_bias = has_in(n, 2),
               .has_mean = has_out(n, 1),
               .has_inv = has_out(n, 2),
               .has_added = has_in(n, LAYER_NORM_GRAD_ADDED) };
    p.parts = p.team;
    return kernel_state(state, &p, sizeof p);
}

static Status cpu_layernorm_prepare_backward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    size_t bytes;
    Plan *p;

    TRY(cpu_layernorm_prepare(state, ctx, g, n));
    p = *state;
    p->parts = team_size(TEAM_MAX, p->rows * p->n / PART_GRAINS);
    bytes = (size_t)p->parts * 2 * (size_t)p->n * sizeof(double);
    if (bytes > ctx->scratch_bytes)
        ctx->scratch_bytes = bytes;
    return ST_OK;
}

#define SIMD_SUM(...) \
    _Pragma("omp simd reduction(+ : sum, more)") for (int64_t i = 0; i < p->n; i++) { __VA_ARGS__ }
#define EACH_PART(p) \
    _Pragma("omp parallel for num_threads(p->team) schedule(static)") for (int part = 0; part < p->parts; part++)
#define ROWS(p) for (int64_t r = team_begin(p->rows, part, p->parts); r < team_begin(p->rows, part + 1, p->parts); r++)

/* dx = inv * (h - mean(h) - xhat * mean(h * xhat)) with h = dy * scale; plus the added tensor. */
#define BODY "kernels/cpu/cpu_layernorm.inc"
#include "kernels/each_type.inc"

static Status cpu_layernorm_run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    const void *bias = p->has_bias ? in[2].data : NULL;
    void *mean = p->has_mean ? out[1].data : NULL, *inv = p->has_inv ? out[2].data : NULL;

    (void)ctx;
    if (in[0].dtype == DT_FLOAT32)
        forward_f32(p, in[0].data, in[1].data, bias, out[0].data, mean, inv);
    else
        forward_f64(p, in[0].data, in[1].data, bias, out[0].data, mean, inv);
    return ST_OK;
}

static Status cpu_layernorm_run_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    if (in[0].dtype == DT_FLOAT32)
        backward_f32(state, ctx->scratch, in, out);
    else
        backward_f64(state, ctx->scratch, in, out);
    return ST_OK;
}

/* Scale and bias of the full normalised size, and something to normalise. */
static bool cpu_layernorm_full_size(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int64_t size = shape_count(x, (int)node_int(n, "axis"), x->rank);

    return size > 0 && shape_numel(in_value(g, n, 1)->shape) == size &&
           (!has_in(n, 2) || shape_numel(in_value(g, n, 2)->shape) == size);
}

static bool not_empty(const Graph *g, const Node *n) { return shape_numel(in_value(g, n, 2)->shape) > 0; }

DEFINE_KERNEL(cpu_layer_normalization, .op = &op_LayerNormalization, .dtypes = DTYPES_F32_F64,
              .supports = cpu_layernorm_full_size, .prepare = cpu_layernorm_prepare, .run = cpu_layernorm_run_forward,
              .release = free);
DEFINE_KERNEL(cpu_layer_norm_grad, .op = &op_LayerNormGrad, .dtypes = DTYPES_F32_F64, .supports = not_empty,
              .prepare = cpu_layernorm_prepare_backward, .run = cpu_layernorm_run_backward, .release = free);
