/* The norm of gradients, whether they are finite, and the scale of the loss: in double for both types. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/ops/optimizer.gen.h"
#include "kernels/ref/gradient_norm.h"
#include "kernels/ref/loss_scale.h"
#include "kernels/ref/ref.h"

Status gradient_norm_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    GradientNorm p = { 0 };

    (void)ctx, (void)g;
    if (n->op == &op_GlobalNorm) {
        p.scaled = node_int(n, "scaled") != 0;
        p.n = n->n_in - p.scaled;
    } else {
        p.scaled = n->op == &op_NormOfSums && has_in(n, 1);
        p.count = node_ints(n, "count", &p.n);
        p.from = n->op == &op_SquareSums ? node_ints(n, "from", &p.n) : NULL;
    }
    p.max_norm = n->op == &op_SquareSums ? 0 : node_float(n, "max_norm");
    return kernel_state(state, &p, sizeof p);
}

void gradient_norm_write(const GradientNorm *p, double squares, const Tensor *by, Tensor *out)
{
    const double factor = by ? tensor_float(by, 0) : 1, norm = sqrt(squares) * fabs(factor),
                 scale = p->max_norm / (norm + 1e-6);

    tensor_set_float(&out[0], 0, norm);
    tensor_set_float(&out[1], 0, factor * (scale > 1 ? 1 : scale)); /* NaN stays NaN */
}

static Status ref_optimizer_run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const GradientNorm *p = state;
    double sum = 0;

    (void)ctx;
    for (int i = 0; i < p->n; i++)
        for (int64_t j = 0, n = tensor_numel(&in[i]); j < n; j++)
            sum += tensor_float(&in[i], j) * tensor_float(&in[i], j);
    gradient_norm_write(p, sum, p->scaled ? &in[p->n] : NULL, out);
    return ST_OK;
}

DEFINE_KERNEL(ref_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .prepare = gradient_norm_prepare,
              .run = ref_optimizer_run_norm, .release = free);

static Status run_squares(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const GradientNorm *p = state;
    double *sum = out->data;

    (void)ctx;
    if (tensor_bytes(out))
        memset(sum, 0, tensor_bytes(out));
    for (int i = 0; i < p->n; sum += norm_pieces(p->count[i++]))
        for (int64_t j = 0, n = p->from[i] < 0 ? 0 : tensor_numel(&in[i]); j < n; j++)
            sum[(p->from[i] + j) / NORM_PIECE] += tensor_float(&in[i], j) * tensor_float(&in[i], j);
    return ST_OK;
}

DEFINE_KERNEL(ref_square_sums, .op = &op_SquareSums, .dtypes = DTYPES_F32_F64, .prepare = gradient_norm_prepare,
              .run = run_squares, .release = free);

/* In the order in which GlobalNorm adds: of each tensor, then of all. */
static Status run_norm_of_sums(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const GradientNorm *p = state;
    const double *sum = in[0].data;
    double all = 0;

    (void)ctx;
    for (int i = 0; i < p->n; i++) {
        double one = 0;

        for (int64_t b = 0; b < norm_pieces(p->count[i]); b++)
            one += *sum++;
        all += one;
    }
    gradient_norm_write(p, all, p->scaled ? &in[1] : NULL, out);
    return ST_OK;
}

DEFINE_KERNEL(ref_norm_of_sums, .op = &op_NormOfSums, .dtypes = DTYPE_BIT(DT_FLOAT64), .prepare = gradient_norm_prepare,
              .run = run_norm_of_sums, .release = free);

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

static Status prepare_scale(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const LossScale p = loss_scale_read(n);

    (void)ctx;
    (void)g;
    return kernel_state(state, &p, sizeof p);
}

static Status run_scale(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const LossScale *p = state;
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
