/* Batch normalisation where channels stand side by side: channels last and in blocks of channels.  Like
 * cpu_batchnorm.c, one thread has all of a channel, in sums of double, so that the order of no sum depends on the team;
 * channels are taken up to 16 at a time. */
#include <math.h>
#include <stdlib.h>

#include "graph/ops/batchnorm.gen.h"
#include "kernels/backend.h"
#include "kernels/cpu/team.h"
#include "kernels/ref/batch_norm.h"

enum { LANES = 16 };

/* Where the lanes of unit u begin in a sample, how many there are, and how far the next position is. */
typedef struct {
    int64_t first, at, step;
    int lanes;
} Unit;

static bool channels_inner(const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);

    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ValueId v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        if (has_value(v) && value(g, v)->layout != (shape_eq(value(g, v)->shape, x->shape) ? x->layout : LAYOUT_ROWS))
            return false;
    }
    return layout_channels(x->layout, x->shape) > 1;
}

static bool stored_so(const Graph *g, const Node *n)
{
    return in_value(g, n, 0)->layout != LAYOUT_ROWS && shape_numel(in_value(g, n, 0)->shape) > 0;
}

/* Alone: what passes/fuse/fuse_batch_norm.c adds is for accelerators. */
static bool differentiates(const Graph *g, const Node *n)
{
    return stored_so(g, n) &&
           (n->op == &op_BatchNormGradStats ? !has_in(n, 5) : !has_in(n, 7) && !has_out(n, 1) && !has_out(n, 2));
}

static bool infers(const Graph *g, const Node *n) { return stored_so(g, n) && !node_int(n, "training_mode"); }

static int team_of(const KernelCtx *ctx, const Tensor *in) { return team_size(ctx, tensor_numel(&in[0])); }

static int64_t units(const BatchNorm *p) { return p->c / p->side * ((p->side + LANES - 1) / LANES); }

static Unit unit(const BatchNorm *p, int64_t u)
{
    const int64_t a_block = (p->side + LANES - 1) / LANES, block = u / a_block, lane = u % a_block * LANES;

    return (Unit){ .first = block * p->side + lane,
                   .at = block * p->inner * p->side + lane,
                   .step = p->side,
                   .lanes = (int)(p->side - lane < LANES ? p->side - lane : LANES) };
}

#define UNITS(p, team) \
    _Pragma("omp parallel for num_threads(team) schedule(static)") for (int64_t i_ = 0; i_ < units(p); i_++)
/* Every position of every sample, its lanes at `at`. */
#define POSITIONS(p, u)                   \
    for (int64_t s_ = 0; s_ < p->n; s_++) \
        for (int64_t k_ = 0, at = s_ * p->c * p->inner + u.at; k_ < p->inner; k_++, at += u.step)
/* A whole unit is a loop of known length. */
#define EACH_LANE(...)                                   \
    {                                                    \
        if (u.lanes == LANES) {                          \
            _Pragma("omp simd") EACH(LANES, __VA_ARGS__) \
        } else {                                         \
            EACH(u.lanes, __VA_ARGS__)                   \
        }                                                \
    }
#define EACH(n, ...)                \
    for (int l = 0; l < (n); l++) { \
        __VA_ARGS__;                \
    }

static Status run_stats(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const BatchNorm *p = state;
    const int team = team_of(ctx, in);
    const float *x = in[0].data;
    double *row = out[0].data;
    const double count = (double)(p->n * p->inner);

    row[0] = count;
    UNITS(p, team)
    {
        const Unit u = unit(p, i_);
        double sum[LANES] = { 0 }, mean[LANES] = { 0 }, rest[LANES] = { 0 }, more[LANES] = { 0 };

        POSITIONS(p, u)
        EACH_LANE(sum[l] += (double)x[at + l])
        EACH_LANE(mean[l] = sum[l] / count)
        POSITIONS(p, u)
        EACH_LANE(double d = (double)x[at + l] - mean[l]; rest[l] += d; more[l] += d * d)
        for (int l = 0; l < u.lanes; l++) {
            row[1 + u.first + l] = mean[l];
            row[1 + p->c + u.first + l] = more[l] - rest[l] * rest[l] / count;
        }
    }
    return ST_OK;
}

static void batchnorm_blocked_apply(const BatchNorm *p, int team, const float *x, const float *mean, const float *var,
                                    const float *scale, const float *bias, float *y)
{
    UNITS(p, team)
    {
        const Unit u = unit(p, i_);
        float k[LANES] = { 0 }, m[LANES] = { 0 }, b[LANES] = { 0 };

        for (int l = 0; l < u.lanes; l++) {
            k[l] = (float)((double)scale[u.first + l] / sqrt((double)var[u.first + l] + p->epsilon));
            m[l] = mean[u.first + l];
            b[l] = bias[u.first + l];
        }
        POSITIONS(p, u) EACH_LANE(y[at + l] = (x[at + l] - m[l]) * k[l] + b[l])
    }
}

static Status batchnorm_blocked_run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    batchnorm_blocked_apply(state, team_of(ctx, in), in[0].data, in[3].data, in[4].data, in[1].data, in[2].data,
                            out[0].data);
    return ST_OK;
}

static Status run_apply(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    batchnorm_blocked_apply(state, team_of(ctx, in), in[0].data, in[1].data, in[2].data, in[3].data, in[4].data,
                            out[0].data);
    return ST_OK;
}

static Status run_grad_stats(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const BatchNorm *p = state;
    const int team = team_of(ctx, in);
    const float *x = in[0].data, *dy = in[1].data, *mean = in[2].data, *var = in[3].data;
    float *sums = out[0].data;

    UNITS(p, team)
    {
        const Unit u = unit(p, i_);
        double sum[LANES] = { 0 }, more[LANES] = { 0 }, m[LANES] = { 0 };

        for (int l = 0; l < u.lanes; l++)
            m[l] = (double)mean[u.first + l];
        POSITIONS(p, u)
        EACH_LANE(double d = (double)dy[at + l]; sum[l] += d; more[l] += d * ((double)x[at + l] - m[l]))
        for (int l = 0; l < u.lanes; l++) {
            sums[u.first + l] = (float)sum[l];
            sums[p->c + u.first + l] = (float)(more[l] / sqrt((double)var[u.first + l] + p->epsilon));
        }
    }
    return ST_OK;
}

static Status run_grad_input(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const BatchNorm *p = state;
    const int team = team_of(ctx, in);
    const float *x = in[0].data, *dy = in[1].data, *mean = in[2].data, *var = in[3].data, *scale = in[4].data;
    const float *sums = in[5].data, count = *(const float *)in[6].data;
    float *dx = out[0].data;

    UNITS(p, team)
    {
        const Unit u = unit(p, i_);
        float k[LANES] = { 0 }, m[LANES] = { 0 }, a[LANES] = { 0 }, b[LANES] = { 0 };

        for (int l = 0; l < u.lanes; l++) {
            int64_t c = u.first + l;
            float inv = (float)(1 / sqrt((double)var[c] + p->epsilon));

            k[l] = scale[c] * inv;
            m[l] = mean[c];
            a[l] = sums[c] / count;
            b[l] = inv * sums[p->c + c] / count;
        }
        POSITIONS(p, u) EACH_LANE(dx[at + l] = k[l] * (dy[at + l] - a[l] - (x[at + l] - m[l]) * b[l]))
    }
    return ST_OK;
}

#define COMMON                                                                                                  \
    .dtypes = DTYPE_BIT(DT_FLOAT32), .layouts = channels_inner, .prepare = batch_norm_prepare, .release = free, \
    .shares = true

DEFINE_KERNEL(cpu_batch_normalization_inner, .op = &op_BatchNormalization, COMMON, .supports = infers,
              .run = batchnorm_blocked_run_norm);
DEFINE_KERNEL(cpu_batch_norm_stats_inner, .op = &op_BatchNormStats, COMMON, .supports = stored_so, .run = run_stats);
DEFINE_KERNEL(cpu_batch_norm_apply_inner, .op = &op_BatchNormApply, COMMON, .supports = stored_so, .run = run_apply);
DEFINE_KERNEL(cpu_batch_norm_grad_stats_inner, .op = &op_BatchNormGradStats, COMMON, .supports = differentiates,
              .run = run_grad_stats);
DEFINE_KERNEL(cpu_batch_norm_grad_input_inner, .op = &op_BatchNormGradInput, COMMON, .supports = differentiates,
              .run = run_grad_input);
