/* Parameter updates, in double for both types: what a float32 kernel is measured against. */
#include <float.h>
#include <math.h>

#include "kernels/ref/optimizer.h"
#include "kernels/ref/ref.h"

/* Input i, or -1. */
static int given(const Node *n, int i) { return has_in(n, i) ? i : -1; }

/* The first input of an update of several parameters that they all share: states come first, as many as outputs, then
 * gradients. */
static int first_shared(const Node *n) { return n->n_out + (int)node_int(n, "count"); }

/* ---- SGD ---- */

Status sgd_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Attr *count = node_attr(n, "count");
    Sgd *p = malloc(sizeof *p);

    (void)ctx;
    (void)g;
    if (!p)
        return FAIL_NOMEM();
    *p = (Sgd){ .momentum = node_float(n, "momentum"),
                .decay = node_float(n, "weight_decay"),
                .nesterov = node_int(n, "nesterov") != 0,
                .has_buffer = count ? n->n_out > count->i : has_in(n, 3),
                .count = count ? (int)count->i : 1,
                .scale = count ? given(n, first_shared(n) + 1) : -1,
                .apply = given(n, count ? first_shared(n) + 2 : 4) };
    *state = p;
    return ST_OK;
}

/* m and m1 are not read and not written without momentum. */
static void sgd(const Sgd *p, double lr, double scale, const Tensor *w, const Tensor *g, const Tensor *m, Tensor *w1,
                Tensor *m1)
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
    const Sgd *p = state;

    (void)ctx;
    if (update_applies(p->apply, in)) {
        sgd(p, tensor_float(&in[2], 0), 1, &in[0], &in[1], p->has_buffer ? &in[3] : NULL, &out[0], &out[1]);
        return ST_OK;
    }
    update_keep(&in[0], &out[0]);
    if (p->has_buffer)
        update_keep(&in[3], &out[1]);
    return ST_OK;
}

DEFINE_KERNEL(ref_sgd_update, .op = &op_SgdUpdate, .dtypes = DTYPES_F32_F64, .prepare = sgd_prepare, .run = run_sgd,
              .release = free);

static double scale_of(int scale, const Tensor *in) { return scale < 0 ? 1 : tensor_float(&in[scale], 0); }

static Status run_sgd_all(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Sgd *p = state;
    const int per = p->has_buffer ? 2 : 1;
    const Tensor *g = in + p->count * per, *lr = g + p->count;
    const bool apply = update_applies(p->apply, in);

    (void)ctx;
    for (int i = 0; i < p->count * per && !apply; i++)
        update_keep(&in[i], &out[i]);
    for (int i = 0; i < p->count && apply; i++)
        sgd(p, tensor_float(lr, 0), scale_of(p->scale, in), &in[i * per], &g[i], &in[i * per + 1], &out[i * per],
            &out[i * per + 1]);
    return ST_OK;
}

DEFINE_KERNEL(ref_sgd_update_all, .op = &op_SgdUpdateAll, .dtypes = DTYPES_F32_F64, .prepare = sgd_prepare,
              .run = run_sgd_all, .release = free);

/* ---- Adam, AdamW ---- */

Status adam_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Attr *count = node_attr(n, "count");
    Adam *p = malloc(sizeof *p);

    (void)ctx;
    (void)g;
    if (!p)
        return FAIL_NOMEM();
    *p = (Adam){ .beta1 = node_float(n, "beta1"),
                 .beta2 = node_float(n, "beta2"),
                 .eps = node_float(n, "eps"),
                 .decay = node_float(n, "weight_decay"),
                 .decoupled = node_int(n, "decoupled") != 0,
                 .count = count ? (int)count->i : 1,
                 .scale = count ? given(n, first_shared(n) + 2) : -1,
                 .apply = given(n, count ? first_shared(n) + 3 : 6) };
    *state = p;
    return ST_OK;
}

/* state: w, m, v. */
static void adam(const Adam *p, double lr, double t, double scale, const Tensor *state, const Tensor *grad,
                 Tensor *next)
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
    const Adam *p = state;
    const Tensor states[] = { in[0], in[3], in[4] };
    const bool apply = update_applies(p->apply, in);

    (void)ctx;
    for (int i = 0; i < 3 && !apply; i++)
        update_keep(&states[i], &out[i]);
    if (apply)
        adam(p, tensor_float(&in[2], 0), (double)tensor_int(&in[5], 0) + 1, 1, states, &in[1], out);
    return ST_OK;
}

DEFINE_KERNEL(ref_adam_update, .op = &op_AdamUpdate, .dtypes = DTYPES_F32_F64, .prepare = adam_prepare, .run = run_adam,
              .release = free);

static Status run_adam_all(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Adam *p = state;
    const Tensor *g = in + 3 * p->count, *lr = g + p->count;
    const bool apply = update_applies(p->apply, in);

    (void)ctx;
    for (int i = 0; i < 3 * p->count && !apply; i++)
        update_keep(&in[i], &out[i]);
    for (int i = 0; i < p->count && apply; i++)
        adam(p, tensor_float(lr, 0), (double)tensor_int(&lr[1], 0) + 1, scale_of(p->scale, in), &in[3 * i], &g[i],
             &out[3 * i]);
    return ST_OK;
}

DEFINE_KERNEL(ref_adam_update_all, .op = &op_AdamUpdateAll, .dtypes = DTYPES_F32_F64, .prepare = adam_prepare,
              .run = run_adam_all, .release = free);

/* ---- norm ---- */

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

/* x - x is 0 for finite x alone; a sum over a block is a loop that the compiler can vectorise. */
#define FINITE(NAME, T)                                       \
    static bool NAME(const T *x, int64_t n)                   \
    {                                                         \
        enum { BLOCK = 4096 };                                \
        for (int64_t from = 0; from < n; from += BLOCK) {     \
            int64_t to = from + BLOCK < n ? from + BLOCK : n; \
            int bad = 0;                                      \
            for (int64_t i = from; i < to; i++)               \
                bad |= !(x[i] - x[i] == 0);                   \
            if (bad)                                          \
                return false;                                 \
        }                                                     \
        return true;                                          \
    }
FINITE(finite_f32, float)
FINITE(finite_f64, double)

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
