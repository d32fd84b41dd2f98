/* The norm of gradients, whether they are finite, and the scale of the loss: in double for both types. */
#include <float.h>
#include <math.h>

#include "kernels/ref/ref.h"

typedef struct {
    int n;
    double max_norm;
    bool scaled;
} Norm; /* n: tensors */

static Status prepare_norm(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Norm *p = malloc(sizeof *p);

    (void)ctx;
    (void)g;
    if (!p)
        return FAIL_NOMEM();
    p->scaled = node_int(n, "scaled") != 0;
    p->n = n->n_in - p->scaled;
    p->max_norm = node_float(n, "max_norm");
    *state = p;
    return ST_OK;
}

static Status run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Norm *p = state;
    double sum = 0, by = p->scaled ? tensor_float(&in[p->n], 0) : 1, norm, scale;

    (void)ctx;
    for (int i = 0; i < p->n; i++)
        for (int64_t j = 0, n = tensor_numel(&in[i]); j < n; j++)
            sum += tensor_float(&in[i], j) * tensor_float(&in[i], j);
    norm = sqrt(sum) * fabs(by);
    scale = p->max_norm / (norm + 1e-6);
    tensor_set_float(&out[0], 0, norm);
    tensor_set_float(&out[1], 0, by * (scale > 1 ? 1 : scale)); /* NaN stays NaN */
    return ST_OK;
}

DEFINE_KERNEL(ref_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .prepare = prepare_norm, .run = run_norm,
              .release = free);

/* ---- loss scaling ---- */

#define BODY "kernels/ref/optimizer.inc"
#include "kernels/each_type.inc"

static Status run_finite(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    bool all = true;

    (void)ctx;
    for (int i = 0; i < *(const int *)state && all; i++)
        all = in[i].dtype == DT_FLOAT32 ? finite_f32(in[i].data, tensor_numel(&in[i]))
                                        : finite_f64(in[i].data, tensor_numel(&in[i]));
    *(bool *)out[0].data = all;
    return ST_OK;
}

DEFINE_KERNEL(ref_all_finite, .op = &op_AllFinite, .dtypes = DTYPES_F32_F64, .prepare = ref_prepare_count,
              .run = run_finite, .release = free);

typedef struct {
    double growth, backoff;
    int64_t interval;
} Scale;

static Status prepare_scale(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Scale *p = malloc(sizeof *p);

    (void)ctx;
    (void)g;
    if (!p)
        return FAIL_NOMEM();
    *p = (Scale){ node_float(n, "growth"), node_float(n, "backoff"), node_int(n, "interval") };
    *state = p;
    return ST_OK;
}

static Status run_scale(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Scale *p = state;
    const bool ok = *(const bool *)in[2].data;
    double scale = tensor_float(&in[0], 0), next = scale;
    int64_t good = ok ? tensor_int(&in[1], 0) + 1 : 0;

    (void)ctx;
    if (!ok) {
        next = scale * p->backoff;
    } else if (good == p->interval) {
        next = scale * p->growth;
        good = 0;
    }
    tensor_set_float(&out[0], 0, next >= FLT_MIN && next <= FLT_MAX ? next : scale);
    tensor_set_int(&out[1], 0, good);
    return ST_OK;
}

DEFINE_KERNEL(ref_loss_scale_update, .op = &op_LossScaleUpdate, .dtypes = DTYPES_F32_F64, .prepare = prepare_scale,
              .run = run_scale, .release = free);
