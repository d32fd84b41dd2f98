/* Batch normalisation by channel: one thread has all of a channel, so that every sum is added in the order of memory
 * whatever the team.  Sums run in double, several lanes at a time. */
#include <math.h>
#include <stdlib.h>

#include "kernels/backend.h"
#include "kernels/cpu/team.h"
#include "kernels/run_float.h"

typedef struct {
    int64_t n, c, inner;
    double epsilon;
    int team;
} Plan;

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = &in_value(g, n, 0)->shape;
    Plan *p = calloc(1, sizeof *p);

    if (!p)
        return FAIL_NOMEM();
    *p = (Plan){ x->dim[0], x->dim[1], shape_count(x, 2, x->rank),
                 node_attr(n, "epsilon") ? node_float(n, "epsilon") : 0, 0 };
    p->team = team_size(ctx->n_threads, shape_numel(x));
    *state = p;
    return ST_OK;
}

/* For every channel c, and in it for every sample's plane of `inner` elements from offset `at` on. */
#define CHANNELS(p) _Pragma("omp parallel for num_threads(p->team) schedule(static)") for (int64_t c = 0; c < p->c; c++)
#define PLANES(p) for (int64_t s_ = 0, at = c * p->inner; s_ < p->n; s_++, at += p->c * p->inner)
#define SIMD_SUM(...) \
    _Pragma("omp simd reduction(+ : sum, more)") for (int64_t i = 0; i < p->inner; i++) { __VA_ARGS__ }

#define T float
#define S(name) name##_f32
#include "kernels/cpu/batchnorm.inc"
#undef T
#undef S
#define T double
#define S(name) name##_f64
#include "kernels/cpu/batchnorm.inc"
#undef T
#undef S

RUN_FLOAT(run_stats, stats, state, in[0].data, out[0].data)
RUN_FLOAT(run_norm, apply, state, in[0].data, in[3].data, in[4].data, in[1].data, in[2].data, out[0].data)
RUN_FLOAT(run_apply, apply, state, in[0].data, in[1].data, in[2].data, in[3].data, in[4].data, out[0].data)
RUN_FLOAT(run_grad_stats, grad_stats, state, in[0].data, in[1].data, in[2].data, in[3].data, out[0].data)
RUN_FLOAT(run_grad_input, grad_input, state, in, out[0].data)

static bool infers(const Graph *g, const Node *n)
{
    (void)g;
    return !node_int(n, "training_mode");
}

/* Alone: what passes/fuse/fuse_batch_norm.c adds is for accelerators. */
static bool differentiates(const Graph *g, const Node *n)
{
    (void)g;
    return n->op == &op_BatchNormGradStats ? !has_in(n, 5) : !has_in(n, 7) && !has_out(n, 1) && !has_out(n, 2);
}

#define COMMON .dtypes = DTYPES_F32_F64, .prepare = prepare, .release = free

DEFINE_KERNEL(cpu_batch_normalization, .op = &op_BatchNormalization, COMMON, .supports = infers, .run = run_norm);
DEFINE_KERNEL(cpu_batch_norm_stats, .op = &op_BatchNormStats, COMMON, .run = run_stats);
DEFINE_KERNEL(cpu_batch_norm_apply, .op = &op_BatchNormApply, COMMON, .run = run_apply);
DEFINE_KERNEL(cpu_batch_norm_grad_stats, .op = &op_BatchNormGradStats, COMMON, .supports = differentiates,
              .run = run_grad_stats);
DEFINE_KERNEL(cpu_batch_norm_grad_input, .op = &op_BatchNormGradInput, COMMON, .supports = differentiates,
              .run = run_grad_input);
