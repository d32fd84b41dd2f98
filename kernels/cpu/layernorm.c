/* LayerNormalization and its gradient by rows.  Each thread has consecutive rows; the gradients of scale and bias are
 * summed per thread and then over threads in order, so they are the same for a given team. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/team.h"

typedef struct {
    int64_t rows, n;
    double epsilon;
    int team;
    bool has_bias, has_mean, has_inv;
} Plan;

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = &in_value(g, n, 0)->shape;
    int axis = (int)node_int(n, "axis");
    Plan *p = malloc(sizeof *p);

    if (!p)
        return FAIL_NOMEM();
    *p = (Plan){ shape_count(x, 0, axis),
                 shape_count(x, axis, x->rank),
                 node_float(n, "epsilon"),
                 team_size(ctx->n_threads, shape_numel(x)),
                 has_in(n, 2),
                 has_out(n, 1),
                 has_out(n, 2) };
    *state = p;
    return ST_OK;
}

static Status prepare_backward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    size_t bytes;

    TRY(prepare(state, ctx, g, n));
    bytes = (size_t)((Plan *)*state)->team * 2 * (size_t)((Plan *)*state)->n * sizeof(double);
    if (bytes > ctx->scratch_bytes)
        ctx->scratch_bytes = bytes;
    return ST_OK;
}

#define SIMD_SUM(...) \
    _Pragma("omp simd reduction(+ : sum, more)") for (int64_t i = 0; i < p->n; i++) { __VA_ARGS__ }
#define EACH_TEAM(p) \
    _Pragma("omp parallel for num_threads(p->team) schedule(static, 1)") for (int team = 0; team < p->team; team++)
#define ROWS(p) for (int64_t r = team_begin(p->rows, team, p->team); r < team_begin(p->rows, team + 1, p->team); r++)

/* dx = inv * (h - mean(h) - xhat * mean(h * xhat)) with h = dy * scale. */
#define T float
#define S(name) name##_f32
#include "kernels/cpu/layernorm.inc"
#undef T
#undef S
#define T double
#define S(name) name##_f64
#include "kernels/cpu/layernorm.inc"
#undef T
#undef S

static Status run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
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

static Status run_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    if (in[0].dtype == DT_FLOAT32)
        backward_f32(state, ctx->scratch, in, out);
    else
        backward_f64(state, ctx->scratch, in, out);
    return ST_OK;
}

/* Scale and bias of the full normalised size, and something to normalise. */
static bool full_size(const Graph *g, const Node *n)
{
    const Shape *x = &in_value(g, n, 0)->shape;
    int64_t size = shape_count(x, (int)node_int(n, "axis"), x->rank);

    return size > 0 && shape_numel(&in_value(g, n, 1)->shape) == size &&
           (!has_in(n, 2) || shape_numel(&in_value(g, n, 2)->shape) == size);
}

static bool not_empty(const Graph *g, const Node *n) { return shape_numel(&in_value(g, n, 2)->shape) > 0; }

DEFINE_KERNEL(cpu_layer_normalization, .op = &op_LayerNormalization, .dtypes = DTYPES_F32_F64, .supports = full_size,
              .prepare = prepare, .run = run_forward, .release = free);
DEFINE_KERNEL(cpu_layer_norm_grad, .op = &op_LayerNormGrad, .dtypes = DTYPES_F32_F64, .supports = not_empty,
              .prepare = prepare_backward, .run = run_backward, .release = free);
