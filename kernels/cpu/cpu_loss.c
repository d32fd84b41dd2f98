/* Losses over class numbers: typed loops, labels checked before the team starts, sums in double and in parts that do
 * not depend on the team. */
#include <math.h>

#include "graph/ops/loss.gen.h"
#include "graph/ops/metric.gen.h"
#include "kernels/cpu/team.h"
#include "kernels/ref/nll.h"

/* ---- class numbers: scores [N, C, inner], whose lines along C are samples; target [N, inner] ---- */

#define BODY "kernels/cpu/cpu_loss.inc"
#include "kernels/each_type.inc"

static Status cpu_loss_run_nll_sum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Nll *p = state;
    const AxisLines e = shape_lines(&in[0].shape, 1);
    const int64_t samples = e.outer * e.inner, work = p->smoothing != 0 ? samples * e.n : samples;
    int team = team_size(ctx, work), parts = team_parts(work);
    double sum[TEAM_MAX][2], num = 0, den = 0;

    TRY(nll_check_labels(p, &in[1], e.n));
#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < parts; t++)
        (in[0].dtype == DT_FLOAT32 ? nll_sum_f32 : nll_sum_f64)(p, &e, in, team_begin(samples, t, parts),
                                                                team_begin(samples, t + 1, parts), sum[t]);
    for (int t = 0; t < parts; t++) {
        num += sum[t][0];
        den += sum[t][1];
    }
    tensor_set_float(&out[0], 0, num);
    tensor_set_float(&out[1], 0, den);
    return ST_OK;
}

static Status cpu_loss_run_nll_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Nll *p = state;
    const AxisLines e = shape_lines(&out[0].shape, 1);
    const int64_t step = e.n * e.inner;
    int team = team_size(ctx, tensor_numel(&out[0]));

    TRY(nll_check_labels(p, &in[1], e.n));
    if (!tensor_numel(&out[0]))
        return ST_OK;
#pragma omp parallel for num_threads(team) schedule(static)
    for (int64_t o = 0; o < e.outer; o++)
        if (in[0].dtype == DT_FLOAT32)
            nll_grad_f32(p, &e, in, o, (float *)out[0].data + o * step);
        else
            nll_grad_f64(p, &e, in, o, (double *)out[0].data + o * step);
    return ST_OK;
}

DEFINE_KERNEL(cpu_nll_sum, .op = &op_NllSum, .dtypes = DTYPES_F32_F64, .rank = 10, .prepare = nll_prepare,
              .run = cpu_loss_run_nll_sum, .release = free);
DEFINE_KERNEL(cpu_nll_grad, .op = &op_NllGrad, .dtypes = DTYPES_F32_F64, .rank = 10, .prepare = nll_prepare,
              .run = cpu_loss_run_nll_grad, .release = free);

/* ---- accuracy ---- */

static Status cpu_loss_run_accuracy(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Nll *p = state;
    const AxisLines e = shape_lines(&in[0].shape, 1);
    int team = team_size(ctx, tensor_numel(&in[0]));
    int64_t correct = 0, counted = 0;

#pragma omp parallel for num_threads(team) schedule(static) reduction(+ : correct, counted)
    for (int64_t i = 0; i < e.outer * e.inner; i++) {
        int64_t at = line_at(&e, i), t = ref_index(&in[1], i), best;

        best = in[0].dtype == DT_FLOAT32 ? best_f32((const float *)in[0].data + at, e.n, e.inner)
                                         : best_f64((const double *)in[0].data + at, e.n, e.inner);
        counted += t != p->ignore;
        correct += t != p->ignore && t == best;
    }
    *(int64_t *)out[0].data = correct;
    *(int64_t *)out[1].data = counted;
    return ST_OK;
}

DEFINE_KERNEL(cpu_accuracy_count, .op = &op_AccuracyCount, .dtypes = DTYPES_F32_F64, .rank = 10, .prepare = nll_prepare,
              .run = cpu_loss_run_accuracy, .release = free);
