/* Parameter updates, in double for both types: what a float32 kernel is measured against. */
#include <math.h>

#include "kernels/ref/optimizer.h"
#include "kernels/ref/ref.h"

/* ---- SGD ---- */

Status sgd_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Attr *count = node_attr(n, "count");
    Sgd *p = malloc(sizeof *p);

    (void)ctx;
    (void)g;
    if (!p)
        return FAIL_NOMEM();
    *p = (Sgd){ node_float(n, "momentum"), node_float(n, "weight_decay"), node_int(n, "nesterov") != 0,
                count ? n->n_out > count->i : has_in(n, 3), count ? (int)count->i : 1 };
    *state = p;
    return ST_OK;
}

/* m and m1 are not read and not written without momentum. */
static void sgd(const Sgd *p, double lr, double scale, const Tensor *w, const Tensor *g, const Tensor *m, Tensor *w1, Tensor *m1)
{
    int64_t n = tensor_numel(w);

    for (int64_t i = 0; i < n; i++) {
        double x = tensor_float(w, i), d = tensor_float(g, i) * scale + p->decay * x, b;

        if (p->has_buffer) {
            b = p->momentum * tensor_float(m, i) + d;
            tensor_set_float(m1, i, b);
            d = p->nesterov ? d + p->momentum * b : b;
        }
        tensor_set_float(w1, i, x - lr * d);
    }
}

static Status run_sgd(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    sgd(state, tensor_float(&in[2], 0), 1, &in[0], &in[1], &in[3], &out[0], &out[1]);
    return ST_OK;
}

DEFINE_KERNEL(ref_sgd_update, .op = &op_SgdUpdate, .dtypes = DTYPES_F32_F64, .prepare = sgd_prepare, .run = run_sgd, .release = free);

/* Whether the node has the input `scale` is read off its number of inputs, which run does not know. */
typedef struct { void *update; bool scaled; } All;

static Status prepare_all(void **state, Status (*prepare)(void **, KernelCtx *, const Graph *, const Node *), KernelCtx *ctx, const Graph *g,
                          const Node *n, int shared)
{
    All *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->scaled = n->n_in > n->n_out + (int)node_int(n, "count") + shared;
    if ((st = prepare(&p->update, ctx, g, n))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

static void release_all(void *state)
{
    All *p = state;

    free(p->update);
    free(p);
}

static Status prepare_sgd_all(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return prepare_all(state, sgd_prepare, ctx, g, n, 1);
}

static Status run_sgd_all(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const All *p = state;
    const Sgd *s = p->update;
    const int per = s->has_buffer ? 2 : 1;
    const Tensor *g = in + s->count * per, *lr = g + s->count;
    double scale = p->scaled ? tensor_float(&lr[1], 0) : 1;

    (void)ctx;
    for (int i = 0; i < s->count; i++)
        sgd(s, tensor_float(lr, 0), scale, &in[i * per], &g[i], &in[i * per + 1], &out[i * per], &out[i * per + 1]);
    return ST_OK;
}

DEFINE_KERNEL(ref_sgd_update_all, .op = &op_SgdUpdateAll, .dtypes = DTYPES_F32_F64, .prepare = prepare_sgd_all, .run = run_sgd_all,
    .release = release_all);

/* ---- Adam, AdamW ---- */

Status adam_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Attr *count = node_attr(n, "count");
    Adam *p = malloc(sizeof *p);

    (void)ctx;
    (void)g;
    if (!p)
        return FAIL_NOMEM();
    *p = (Adam){ node_float(n, "beta1"), node_float(n, "beta2"), node_float(n, "eps"), node_float(n, "weight_decay"), node_int(n, "decoupled") != 0,
                 count ? (int)count->i : 1 };
    *state = p;
    return ST_OK;
}

/* state: w, m, v. */
static void adam(const Adam *p, double lr, double t, double scale, const Tensor *state, const Tensor *grad, Tensor *next)
{
    double size = lr / (1 - pow(p->beta1, t)), root = sqrt(1 - pow(p->beta2, t));
    int64_t n = tensor_numel(&state[0]);

    for (int64_t i = 0; i < n; i++) {
        double w = tensor_float(&state[0], i), g = tensor_float(grad, i) * scale, m, v;

        if (p->decoupled)
            w *= 1 - lr * p->decay;
        else
            g += p->decay * w;
        m = p->beta1 * tensor_float(&state[1], i) + (1 - p->beta1) * g;
        v = p->beta2 * tensor_float(&state[2], i) + (1 - p->beta2) * g * g;
        tensor_set_float(&next[1], i, m);
        tensor_set_float(&next[2], i, v);
        tensor_set_float(&next[0], i, w - size * m / (sqrt(v) / root + p->eps));
    }
}

static Status run_adam(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Tensor states[] = { in[0], in[3], in[4] };

    (void)ctx;
    adam(state, tensor_float(&in[2], 0), (double)tensor_int(&in[5], 0) + 1, 1, states, &in[1], out);
    return ST_OK;
}

DEFINE_KERNEL(ref_adam_update, .op = &op_AdamUpdate, .dtypes = DTYPES_F32_F64, .prepare = adam_prepare, .run = run_adam, .release = free);

static Status prepare_adam_all(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return prepare_all(state, adam_prepare, ctx, g, n, 2);
}

static Status run_adam_all(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const All *p = state;
    const Adam *a = p->update;
    const Tensor *g = in + 3 * a->count, *lr = g + a->count;
    double scale = p->scaled ? tensor_float(&lr[2], 0) : 1;

    (void)ctx;
    for (int i = 0; i < a->count; i++)
        adam(a, tensor_float(lr, 0), (double)tensor_int(&lr[1], 0) + 1, scale, &in[3 * i], &g[i], &out[3 * i]);
    return ST_OK;
}

DEFINE_KERNEL(ref_adam_update_all, .op = &op_AdamUpdateAll, .dtypes = DTYPES_F32_F64, .prepare = prepare_adam_all, .run = run_adam_all,
    .release = release_all);

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
