/* Parameter updates, in double for both types: what a float32 kernel is measured against. */
#include <math.h>

#include "kernels/ref/optimizer.h"
#include "kernels/ref/ref.h"

/* ---- SGD ---- */

Status sgd_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Sgd *p = malloc(sizeof *p);

    (void)ctx;
    (void)g;
    if (!p)
        return FAIL_NOMEM();
    *p = (Sgd){ node_float(n, "momentum"), node_float(n, "weight_decay"), node_int(n, "nesterov") != 0, has_in(n, 3) };
    *state = p;
    return ST_OK;
}

static Status run_sgd(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Sgd *p = state;
    double lr = tensor_float(&in[2], 0);
    int64_t n = tensor_numel(&in[0]);

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        double w = tensor_float(&in[0], i), d = tensor_float(&in[1], i) + p->decay * w, m;

        if (p->has_buffer) {
            m = p->momentum * tensor_float(&in[3], i) + d;
            tensor_set_float(&out[1], i, m);
            d = p->nesterov ? d + p->momentum * m : m;
        }
        tensor_set_float(&out[0], i, w - lr * d);
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_sgd_update, .op = &op_SgdUpdate, .dtypes = DTYPES_F32_F64, .prepare = sgd_prepare, .run = run_sgd, .release = free);

/* ---- Adam, AdamW ---- */

Status adam_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Adam *p = malloc(sizeof *p);

    (void)ctx;
    (void)g;
    if (!p)
        return FAIL_NOMEM();
    *p = (Adam){ node_float(n, "beta1"), node_float(n, "beta2"), node_float(n, "eps"), node_float(n, "weight_decay"), node_int(n, "decoupled") != 0 };
    *state = p;
    return ST_OK;
}

static Status run_adam(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Adam *p = state;
    double lr = tensor_float(&in[2], 0), t = (double)tensor_int(&in[5], 0) + 1;
    double size = lr / (1 - pow(p->beta1, t)), root = sqrt(1 - pow(p->beta2, t));
    int64_t n = tensor_numel(&in[0]);

    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        double w = tensor_float(&in[0], i), g = tensor_float(&in[1], i), m, v;

        if (p->decoupled)
            w *= 1 - lr * p->decay;
        else
            g += p->decay * w;
        m = p->beta1 * tensor_float(&in[3], i) + (1 - p->beta1) * g;
        v = p->beta2 * tensor_float(&in[4], i) + (1 - p->beta2) * g * g;
        tensor_set_float(&out[1], i, m);
        tensor_set_float(&out[2], i, v);
        tensor_set_float(&out[0], i, w - size * m / (sqrt(v) / root + p->eps));
    }
    return ST_OK;
}

DEFINE_KERNEL(ref_adam_update, .op = &op_AdamUpdate, .dtypes = DTYPES_F32_F64, .prepare = adam_prepare, .run = run_adam, .release = free);

/* ---- norm ---- */

typedef struct { int n_in; double max_norm; } Norm;

static Status prepare_norm(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Norm *p = malloc(sizeof *p);

    (void)ctx;
    (void)g;
    if (!p)
        return FAIL_NOMEM();
    *p = (Norm){ n->n_in, node_float(n, "max_norm") };
    *state = p;
    return ST_OK;
}

static Status run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Norm *p = state;
    double sum = 0, scale;

    (void)ctx;
    for (int i = 0; i < p->n_in; i++)
        for (int64_t j = 0, n = tensor_numel(&in[i]); j < n; j++)
            sum += tensor_float(&in[i], j) * tensor_float(&in[i], j);
    scale = p->max_norm / (sqrt(sum) + 1e-6);
    tensor_set_float(&out[0], 0, sqrt(sum));
    tensor_set_float(&out[1], 0, scale > 1 ? 1 : scale);    /* NaN stays NaN */
    return ST_OK;
}

DEFINE_KERNEL(ref_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .prepare = prepare_norm, .run = run_norm, .release = free);
