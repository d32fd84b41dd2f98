/* CrossEntropySum and its gradient by their definition, in double. */
#include <math.h>

#include "graph/ops/cross_entropy.gen.h"
#include "kernels/ref/nll.h"

/* Score c of the sample at `at` is element at + c * inner. */
static int64_t sample_at(const Shape *x, int64_t inner, int64_t i) { return i / inner * x->dim[1] * inner + i % inner; }

static double log_sum_exp(const Tensor *x, int64_t at, int64_t inner, int64_t classes)
{
    double top = -INFINITY, sum = 0;

    for (int64_t c = 0; c < classes; c++)
        top = fmax(top, tensor_float(x, at + c * inner));
    for (int64_t c = 0; c < classes; c++)
        sum += exp(tensor_float(x, at + c * inner) - top);
    return top + log(sum);
}

static Status ref_cross_entropy_run_sum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Nll *p = state;
    const Shape *x = &in[0].shape;
    const int64_t C = x->dim[1], inner = shape_count(x, 2, x->rank), n = tensor_numel(&in[1]);
    double num = 0, den = 0;
    int64_t t;

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = sample_at(x, inner, i);
        const double l = log_sum_exp(&in[0], at, inner, C);
        double all = 0;

        tensor_set_float(&out[2], i, l);
        TRY(nll_label(&t, p, &in[1], i, C));
        if (t < 0)
            continue;
        for (int64_t c = 0; p->smoothing != 0 && c < C; c++)
            all += tensor_float(&in[0], at + c * inner);
        num += l - (1 - p->smoothing) * tensor_float(&in[0], at + t * inner) - p->smoothing / (double)C * all;
        den++;
    }
    tensor_set_float(&out[0], 0, num);
    tensor_set_float(&out[1], 0, den);
    return ST_OK;
}

static Status ref_cross_entropy_run_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Nll *p = state;
    const Shape *x = &in[1].shape;
    const int64_t C = x->dim[1], inner = shape_count(x, 2, x->rank), n = tensor_numel(&in[2]);
    const double dy = tensor_float(&in[0], 0);
    int64_t t;

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = sample_at(x, inner, i);
        const double l = tensor_float(&in[3], i);

        TRY(nll_label(&t, p, &in[2], i, C));
        for (int64_t c = 0; c < C; c++) {
            const double wanted = (c == t ? 1 - p->smoothing : 0) + p->smoothing / (double)C;

            tensor_set_float(&out[0], at + c * inner,
                             t < 0 ? 0 : dy * (exp(tensor_float(&in[1], at + c * inner) - l) - wanted));
        }
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_cross_entropy_sum, .op = &op_CrossEntropySum, .dtypes = DTYPES_F32_F64, .prepare = nll_prepare,
              .run = ref_cross_entropy_run_sum, .release = free);
DEFINE_KERNEL(ref_cross_entropy_grad, .op = &op_CrossEntropyGrad, .dtypes = DTYPES_F32_F64, .prepare = nll_prepare,
              .run = ref_cross_entropy_run_grad, .release = free);
