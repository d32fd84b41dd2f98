/* Batch normalisation by channel: one thread has all of a channel, so that every sum is added in the order of memory
 * whatever the team.  Sums run in double, in lanes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/batchnorm.gen.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/cpu_batchnorm.h"
#include "kernels/typed.h"

/* For every channel c, and in it for every sample's plane, or for parts of it: `inner` elements from offset `at` on. */
#define CHANNELS(p, team) \
    _Pragma("omp parallel for num_threads(team) schedule(static)") for (int64_t c = 0; c < p->c; c++)
#define PLANES(p) for (int64_t s_ = 0, inner = p->inner, at = c * inner; s_ < p->n; s_++, at += p->c * inner)
#define PARTS(p)                                                                       \
    for (int64_t s_ = 0; s_ < p->n; s_++)                                              \
        for (int64_t at = (s_ * p->c + c) * p->inner, end_ = at + p->inner, inner = 0; \
             (inner = end_ - at < PART ? end_ - at : PART) > 0; at += inner)

enum {
    LANES = 32, /* sums side by side, so that no addition waits for the one before, whatever a plane's size */
    PART = 1024 /* of whole lanes, so that parts do not change which lane an element is in */
};

/* TAKE for n = most elements of a plane from i on, as long as there are so many: the compiler knows a constant one. */
#define IN_STEPS(most, TAKE)                                        \
    for (const int64_t n = (most); n > 0 && i + n <= inner; i += n) \
    TAKE
/* In lanes, then by 8, then the rest. */
#define IN_LANES(TAKE)             \
    do {                           \
        int64_t i = 0;             \
        IN_STEPS(LANES, TAKE);     \
        IN_STEPS(8, TAKE);         \
        IN_STEPS(inner - i, TAKE); \
    } while (0)

static double total(double *lane)
{
    for (int n = LANES / 2; n; n /= 2)
        for (int l = 0; l < n; l++)
            lane[l] += lane[n + l];
    return lane[0];
}

#define BODY "kernels/cpu/cpu_batchnorm.inc"
#include "kernels/each_type.inc"

#define TEAM team_size(ctx, tensor_numel(&in[0]))
RUN_FLOAT(run_stats, stats, state, TEAM, in[0].data, out[0].data)
RUN_FLOAT(run_norm, apply, state, TEAM, in[0].data, in[3].data, in[4].data, in[1].data, in[2].data, out[0].data)
RUN_FLOAT(run_apply, apply, state, TEAM, in[0].data, in[1].data, in[2].data, in[3].data, in[4].data, out[0].data)
RUN_FLOAT(run_grad_stats, grad_stats, state, TEAM, in[0].data, in[1].data, in[2].data, in[3].data,
          ((const BatchNorm *)state)->relu ? in[4].data : NULL, ((const BatchNorm *)state)->relu ? in[5].data : NULL,
          out[0].data)
RUN_FLOAT(run_grad_input, grad_input, state, TEAM, in, out)

static bool infers(const Graph *g, const Node *n)
{
    (void)g;
    return !node_int(n, "training_mode");
}

#define COMMON .dtypes = DTYPES_F32_F64, .prepare = batch_norm_prepare, .release = free, .shares = true

DEFINE_KERNEL(cpu_batch_normalization, .op = &op_BatchNormalization, COMMON, .supports = infers, .run = run_norm);
DEFINE_KERNEL(cpu_batch_norm_stats, .op = &op_BatchNormStats, COMMON, .run = run_stats);
DEFINE_KERNEL(cpu_batch_norm_apply, .op = &op_BatchNormApply, COMMON, .run = run_apply, .by_rows = true);
DEFINE_KERNEL(cpu_batch_norm_grad_stats, .op = &op_BatchNormGradStats, COMMON, .run = run_grad_stats);
DEFINE_KERNEL(cpu_batch_norm_grad_input, .op = &op_BatchNormGradInput, COMMON, .run = run_grad_input);

/* ---- a part of BatchNormApply ---- */

void batch_norm_factors(const BatchNorm *p, DType t, const void *var, const void *scale, void *k)
{
    t == DT_FLOAT32 ? factors_f32(p, var, scale, k) : factors_f64(p, var, scale, k);
}

void batch_norm_part(const BatchNorm *p, DType t, const void *x, const void *const channel[3], void *y, int64_t from,
                     int64_t n)
{
    t == DT_FLOAT32 ? part_f32(p, x, channel[0], channel[1], channel[2], y, from, n)
                    : part_f64(p, x, channel[0], channel[1], channel[2], y, from, n);
}

/* ---- one channel ---- */

static Status cpu_batchnorm_run_merge(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const MergePlan *p = state;
    double count;

    (void)ctx;
    TRY(ref_merge_count(&count, p, &in[0]));
    if (out[0].dtype == DT_FLOAT32)
        merge_f32(p, in, out, count);
    else
        merge_f64(p, in, out, count);
    return ST_OK;
}

/* The sums of the gradient, [2, channels], are those of bias and scale. */
static Status run_grad_params(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const size_t half = tensor_bytes(&in[0]) / 2;

    (void)ctx, (void)state;
    if (half) {
        memcpy(out[1].data, in[0].data, half);
        memcpy(out[0].data, (const char *)in[0].data + half, half);
    }
    return ST_OK;
}

static bool merges(const Graph *g, const Node *n) { return DTYPES_F32_F64 & DTYPE_BIT(value(g, n->out[0])->dtype); }

DEFINE_KERNEL(cpu_batch_norm_merge, .op = &op_BatchNormMerge, .supports = merges, .prepare = ref_merge_prepare,
              .run = cpu_batchnorm_run_merge, .release = free);
DEFINE_KERNEL(cpu_batch_norm_grad_params, .op = &op_BatchNormGradParams, .dtypes = DTYPES_F32_F64,
              .run = run_grad_params);
