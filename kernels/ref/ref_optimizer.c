/* The norm of gradients, whether they are finite, and the scale of the loss: in double for both types. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/ops/update.h"
#include "graph/ops/optimizer.gen.h"
#include "kernels/ref/ref.h"

typedef struct {
    int n;
    double max_norm;
    bool scaled;
} Norm; /* n: tensors */

static Status ref_optimizer_prepare_norm(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Norm p = { 0 };

    (void)ctx;
    (void)g;
    p.scaled = node_int(n, "scaled") != 0;
    p.n = n->n_in - p.scaled;
    p.max_norm = node_float(n, "max_norm");
    return kernel_state(state, &p, sizeof p);
}

static Status ref_optimizer_run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
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

DEFINE_KERNEL(ref_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .prepare = ref_optimizer_prepare_norm,
              .run = ref_optimizer_run_norm, .release = free);

typedef struct {
    int n;
    double max_norm;
    bool scaled;
    int64_t *count, *from; /* [n]; from NULL: of NormOfSums */
} Sums;

static void release_sums(void *state)
{
    Sums *p = state;

    free(p->count);
    free(p->from);
    free(p);
}

static int64_t *copy_ints(const Node *n, const char *name, int count)
{
    int64_t *copy = malloc((size_t)count * sizeof *copy + 1);
    int len;

    if (copy)
        memcpy(copy, node_ints(n, name, &len), (size_t)count * sizeof *copy);
    return copy;
}

static Status ref_optimizer_prepare_sums(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool norm = n->op == &op_NormOfSums;
    Sums *p = calloc(1, sizeof *p);

    (void)ctx, (void)g;
    if (!p)
        return FAIL_NOMEM();
    node_ints(n, "count", &p->n);
    p->count = copy_ints(n, "count", p->n);
    p->from = norm ? NULL : copy_ints(n, "from", p->n);
    p->max_norm = norm ? node_float(n, "max_norm") : 0;
    p->scaled = norm && has_in(n, 1);
    if (!p->count || (!norm && !p->from)) {
        release_sums(p);
        return FAIL_NOMEM();
    }
    *state = p;
    return ST_OK;
}

static int64_t pieces_of(int64_t numel) { return (numel + NORM_PIECE - 1) / NORM_PIECE; }

static Status run_squares(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Sums *p = state;
    double *sum = out->data;

    (void)ctx;
    if (tensor_bytes(out))
        memset(sum, 0, tensor_bytes(out));
    for (int i = 0; i < p->n; sum += pieces_of(p->count[i++]))
        for (int64_t j = 0, n = p->from[i] < 0 ? 0 : tensor_numel(&in[i]); j < n; j++)
            sum[(p->from[i] + j) / NORM_PIECE] += tensor_float(&in[i], j) * tensor_float(&in[i], j);
    return ST_OK;
}

DEFINE_KERNEL(ref_square_sums, .op = &op_SquareSums, .dtypes = DTYPES_F32_F64, .prepare = ref_optimizer_prepare_sums,
              .run = run_squares, .release = release_sums);

/* In the order in which GlobalNorm adds: of each tensor, then of all. */
static Status run_norm_of_sums(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Sums *p = state;
    const double *sum = in[0].data;
    double all = 0, by = p->scaled ? tensor_float(&in[1], 0) : 1, norm, scale;

    (void)ctx;
    for (int i = 0; i < p->n; i++) {
        double one = 0;

        for (int64_t b = 0; b < pieces_of(p->count[i]); b++)
            one += *sum++;
        all += one;
    }
    norm = sqrt(all) * fabs(by);
    scale = p->max_norm / (norm + 1e-6);
    tensor_set_float(&out[0], 0, norm);
    tensor_set_float(&out[1], 0, by * (scale > 1 ? 1 : scale));
    return ST_OK;
}

DEFINE_KERNEL(ref_norm_of_sums, .op = &op_NormOfSums, .dtypes = DTYPE_BIT(DT_FLOAT64),
              .prepare = ref_optimizer_prepare_sums, .run = run_norm_of_sums, .release = release_sums);

/* ---- loss scaling ---- */

#define BODY "kernels/ref/ref_optimizer.inc"
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
    const Scale p = { node_float(n, "growth"), node_float(n, "backoff"), node_int(n, "interval") };

    (void)ctx;
    (void)g;
    return kernel_state(state, &p, sizeof p);
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
