/* Losses of one element against one, vectorised by the compiler; sums in blocks, in double and in parts that do not
 * depend on the team. */
#include "graph/ops/loss.gen.h"
#include "kernels/ref/element_loss.h"

#include "kernels/cpu/cpu_formulas.h"
#include "kernels/cpu/team.h"

enum { BLOCK = 256 };

#define BODY "kernels/cpu/element_loss.inc"
#include "kernels/each_type.inc"

static Status element_loss_run_sum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const int64_t n = tensor_numel(&in[0]);
    const int team = team_size(ctx, n), parts = team_parts(n);
    double part[TEAM_MAX], sum = 0;

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < parts; t++)
        part[t] = (in[0].dtype == DT_FLOAT32 ? sum_f32 : sum_f64)(state, in, team_begin(n, t, parts),
                                                                  team_begin(n, t + 1, parts));
    for (int t = 0; t < parts; t++)
        sum += part[t];
    tensor_set_float(&out[0], 0, sum);
    return ST_OK;
}

static Status element_loss_run_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const int64_t n = tensor_numel(&out[0]);
    const int team = team_size(ctx, n);

#pragma omp parallel for num_threads(team) schedule(static)
    for (int t = 0; t < team; t++) {
        const int64_t from = team_begin(n, t, team), count = team_begin(n, t + 1, team) - from;

        (in[1].dtype == DT_FLOAT32 ? slopes_f32 : slopes_f64)(state, in, out, from, count);
    }
    return ST_OK;
}

#define COMMON .dtypes = DTYPES_F32_F64, .prepare = element_loss_prepare, .release = free

DEFINE_KERNEL(cpu_element_loss_sum, .op = &op_ElementLossSum, COMMON, .run = element_loss_run_sum);
DEFINE_KERNEL(cpu_element_loss_grad, .op = &op_ElementLossGrad, COMMON, .run = element_loss_run_grad);
