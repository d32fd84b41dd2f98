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

#define FAMILY(S, T)                                                                                                   \
    static void stats_##S(const Plan *p, const T *x, double *row)                                                      \
    {                                                                                                                  \
        double count = (double)(p->n * p->inner);                                                                      \
        row[0] = count;                                                                                                \
        CHANNELS(p)                                                                                                    \
        {                                                                                                              \
            double sum = 0, more = 0, mean;                                                                            \
            PLANES(p)                                                                                                  \
            {                                                                                                          \
                const T *v = x + at;                                                                                   \
                SIMD_SUM(sum += (double)v[i];)                                                                         \
            }                                                                                                          \
            mean = count > 0 ? sum / count : 0;                                                                        \
            sum = 0;                                                                                                   \
            PLANES(p)                                                                                                  \
            {                                                                                                          \
                const T *v = x + at;                                                                                   \
                SIMD_SUM(double d = (double)v[i] - mean; sum += d; more += d * d;)                                     \
            }                                                                                                          \
            row[1 + c] = mean;                                                                                         \
            row[1 + p->c + c] = count > 0 ? more - sum * sum / count : 0;                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void apply_##S(const Plan *p, const T *x, const T *mean, const T *var, const T *scale, const T *bias, T *y) \
    {                                                                                                                  \
        CHANNELS(p)                                                                                                    \
        {                                                                                                              \
            T k = (T)((double)scale[c] / sqrt((double)var[c] + p->epsilon)), m = mean[c], b = bias[c];                 \
            PLANES(p)                                                                                                  \
            {                                                                                                          \
                _Pragma("omp simd") for (int64_t i = at; i < at + p->inner; i++) y[i] = (x[i] - m) * k + b;            \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void grad_stats_##S(const Plan *p, const T *x, const T *dy, const T *mean, const T *var, T *sums)           \
    {                                                                                                                  \
        CHANNELS(p)                                                                                                    \
        {                                                                                                              \
            double sum = 0, more = 0, m = (double)mean[c];                                                             \
            PLANES(p)                                                                                                  \
            {                                                                                                          \
                const T *v = x + at, *d = dy + at;                                                                     \
                SIMD_SUM(sum += (double)d[i]; more += (double)d[i] * ((double)v[i] - m);)                              \
            }                                                                                                          \
            sums[c] = (T)sum;                                                                                          \
            sums[p->c + c] = (T)(more / sqrt((double)var[c] + p->epsilon));                                            \
        }                                                                                                              \
    }                                                                                                                  \
    static void grad_input_##S(const Plan *p, const Tensor *in, T *dx)                                                 \
    {                                                                                                                  \
        const T *x = in[0].data, *dy = in[1].data, *mean = in[2].data, *var = in[3].data, *scale = in[4].data;         \
        const T *sums = in[5].data, count = *(const T *)in[6].data;                                                    \
        CHANNELS(p)                                                                                                    \
        {                                                                                                              \
            T inv = (T)(1 / sqrt((double)var[c] + p->epsilon)), k = scale[c] * inv, m = mean[c];                       \
            T a = sums[c] / count, b = inv * sums[p->c + c] / count;                                                   \
            PLANES(p)                                                                                                  \
            {                                                                                                          \
                _Pragma("omp simd") for (int64_t i = at; i < at + p->inner; i++) dx[i] =                               \
                    k * (dy[i] - a - (x[i] - m) * b);                                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }
FAMILY(f32, float)
FAMILY(f64, double)

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

/* Alone: what passes/fuse_batch_norm.c adds is for accelerators. */
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
