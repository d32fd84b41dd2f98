/* CrossEntropySum and its gradient: the scores are read once forward and once backward, by rows of memory or by columns
 * where the classes are not the last axis.  Each sample's loss is found by the team and added in the order of the
 * samples, in double: the sum does not depend on the team. */
#include "graph/ops/cross_entropy.gen.h"
#include "kernels/cpu/cpu_softmax.h"
#include "kernels/ref/nll.h"

/* Scratch: the loss of each sample. */
static Status cpu_cross_entropy_prepare_sum(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const size_t need = (size_t)shape_numel(in_value(g, n, 1)->shape) * sizeof(double);

    ctx->scratch_bytes = need > ctx->scratch_bytes ? need : ctx->scratch_bytes;
    return nll_prepare(state, ctx, g, n);
}

#define BODY "kernels/cpu/cpu_cross_entropy.inc"
#include "kernels/each_type.inc"

/* The first sample of a task, and how many it has. */
static int64_t samples_of(const SoftmaxPlan *by, int64_t task, int64_t *first)
{
    const int64_t from = task % by->tiles * SOFTMAX_TILE;

    *first = task / by->tiles * by->inner + from;
    return by->inner - from < SOFTMAX_TILE ? by->inner - from : SOFTMAX_TILE;
}

static Status cpu_cross_entropy_run_sum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const SoftmaxPlan by = softmax_plan(&in[0].shape, 1, ctx);
    const Nll *p = state;
    const int64_t samples = tensor_numel(&in[1]);
    double *loss = ctx->scratch, num = 0, den = 0;

    TRY(nll_check_labels(p, &in[1], by.n));
#pragma omp parallel for num_threads(by.team) schedule(static)
    for (int64_t t = 0; t < by.tasks; t++) {
        int64_t first, w = samples_of(&by, t, &first);

        (in[0].dtype == DT_FLOAT32 ? losses_f32 : losses_f64)(p, &by, in, &out[2], first, w, loss);
    }
    for (int64_t i = 0; i < samples; i++)
        if (ref_index(&in[1], i) != p->ignore) {
            num += loss[i];
            den++;
        }
    tensor_set_float(&out[0], 0, num);
    tensor_set_float(&out[1], 0, den);
    return ST_OK;
}

static Status cpu_cross_entropy_run_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const SoftmaxPlan by = softmax_plan(&in[1].shape, 1, ctx);
    const Nll *p = state;

    TRY(nll_check_labels(p, &in[2], by.n));
#pragma omp parallel for num_threads(by.team) schedule(static)
    for (int64_t t = 0; t < by.tasks; t++) {
        int64_t first, w = samples_of(&by, t, &first);

        (in[1].dtype == DT_FLOAT32 ? slopes_f32 : slopes_f64)(p, &by, in, out, first, w);
    }
    return ST_OK;
}

/* Scores of 16 bits have a slope of float32. */
static bool is_one_type(const Graph *g, const Node *n) { return in_value(g, n, 1)->dtype == in_value(g, n, 0)->dtype; }

#define COMMON .dtypes = DTYPES_F32_F64, .release = free

DEFINE_KERNEL(cpu_cross_entropy_sum, .op = &op_CrossEntropySum, COMMON, .prepare = cpu_cross_entropy_prepare_sum,
              .run = cpu_cross_entropy_run_sum);
DEFINE_KERNEL(cpu_cross_entropy_grad, .op = &op_CrossEntropyGrad, COMMON, .supports = is_one_type,
              .prepare = nll_prepare, .run = cpu_cross_entropy_run_grad);
