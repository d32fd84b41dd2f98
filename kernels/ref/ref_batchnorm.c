/* Batch normalisation.  Sums run in double whatever the type: variance by two passes, gradients of scale and bias
 * exactly. */
#include <math.h>
#include <string.h>

#include "graph/ops/batchnorm.gen.h"
#include "graph/tensor/layout.h"
#include "kernels/ref/batch_norm.h"
#include "kernels/ref/ref.h"

/* How the channels of x lie. */
static BatchNorm batch_norm_of(const Shape *x, Layout layout)
{
    return (BatchNorm){
        .n = x->dim[0], .c = x->dim[1], .inner = shape_count(x, 2, x->rank), .side = layout_channels(layout, x)
    };
}

Status batch_norm_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    BatchNorm p = batch_norm_of(x->shape, x->layout);

    (void)ctx;
    p.wants[0] = has_out(n, 1);
    p.wants[1] = has_out(n, 2);
    p.relu = n->op == &op_BatchNormGradStats ? has_in(n, 5) : n->op == &op_BatchNormGradInput && has_in(n, 7);
    if (node_attr(n, "epsilon"))
        p.epsilon = node_float(n, "epsilon");
    if (node_attr(n, "momentum")) {
        p.momentum = node_float(n, "momentum");
        p.unbiased = node_int(n, "unbiased");
        p.clamp = node_int(n, "clamp");
    }
    return kernel_state(state, &p, sizeof p);
}

/* The elements x[at] of channel c in the order of memory. */
#define EACH(p, c, BODY)                                                                           \
    for (int64_t s_ = 0; s_ < (p)->n; s_++)                                                        \
        for (int64_t at = (s_ * (p)->c + (c)) * (p)->inner, e_ = at + (p)->inner; at < e_; at++) { \
            BODY                                                                                   \
        }

#define BODY "kernels/ref/ref_batchnorm.inc"
#include "kernels/each_type.inc"

RUN_FLOAT(run_stats, stats, state, in[0].data, out[0].data)
RUN_FLOAT(run_norm, apply, state, in[0].data, in[3].data, in[4].data, in[1].data, in[2].data, out[0].data)
RUN_FLOAT(run_apply, apply, state, in[0].data, in[1].data, in[2].data, in[3].data, in[4].data, out[0].data)
RUN_FLOAT(run_grad_stats, grad_stats, state, in, out[0].data)
RUN_FLOAT(run_train, train, state, in, out)
RUN_FLOAT(run_grad_input, grad_input, state, in, out)

/* ---- merging ---- */

Status ref_merge_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    MergePlan p = { .channels = in_value(g, n, 0)->shape->dim[1] / 2,
                    .keep = node_float(n, "keep"),
                    .take = node_float(n, "take"),
                    .check = node_int(n, "sync"),
                    .unbiased = node_int(n, "unbiased"),
                    .running = { has_in(n, 1), has_in(n, 2) } };

    (void)ctx;
    return kernel_state(state, &p, sizeof p);
}

/* Chan, Golub, LeVeque 1979: moments of two sets together. */
static Moments merge_two(Moments a, Moments b)
{
    Moments r = { a.n + b.n, 0, 0 };
    double d = b.mean - a.mean;

    if (a.n == 0 || b.n == 0)
        return a.n == 0 ? b : a;
    r.mean = a.mean + d * (b.n / r.n);
    r.m2 = a.m2 + b.m2 + d * d * (a.n * b.n / r.n);
    return r;
}

/* The left part is the largest power of two below the number of rows. */
Moments ref_merge_rows(const double *rows, int64_t channels, int64_t c, int64_t lo, int64_t hi)
{
    const double *row = rows + lo * (2 * channels + 1);
    int64_t left = 1;

    if (hi - lo == 1)
        return (Moments){ row[0], row[1 + c], row[1 + channels + c] };
    while (2 * left < hi - lo)
        left *= 2;
    return merge_two(ref_merge_rows(rows, channels, c, lo, lo + left),
                     ref_merge_rows(rows, channels, c, lo + left, hi));
}

/* By at least 1: a replica of its own statistics may have a single number, whose variance is 0. */
double ref_merge_correction(const MergePlan *p, double n) { return p->unbiased ? n / (n - 1 > 1 ? n - 1 : 1) : 1; }

Status ref_merge_count(double *out, const MergePlan *p, const Tensor *rows)
{
    const double *row = rows->data;
    double count = 0;

    for (int64_t i = 0; i < rows->shape.dim[0]; i++)
        count += row[i * (2 * p->channels + 1)];
    if (p->check && count == 1)
        return FAIL(E_SHAPE,
                    "the whole batch has one value per channel, whose variance does not exist: use a larger batch");
    *out = count;
    return ST_OK;
}

/* in: running statistics before, behind rows or data. */
static Status merge_rows(const MergePlan *p, const double *rows, int64_t n_rows, double count, const Tensor *in,
                         Tensor *out)
{
    for (int64_t c = 0; c < p->channels; c++) {
        Moments m = n_rows ? ref_merge_rows(rows, p->channels, c, 0, n_rows) : (Moments){ 0, 0, 0 };

        tensor_set_float(&out[0], c, m.mean);
        tensor_set_float(&out[1], c, m.n > 0 ? m.m2 / m.n : 0);
    }
    tensor_set_float(&out[2], 0, count);
    for (int i = 0; i < 2; i++) {
        const double keep = count > 0 ? p->keep : 1, take = p->take * (i ? ref_merge_correction(p, count) : 1);

        for (int64_t c = 0; p->running[i] && c < p->channels; c++)
            tensor_set_float(&out[3 + i], c, tensor_float(&in[1 + i], c) * keep + tensor_float(&out[i], c) * take);
    }
    return ST_OK;
}

static Status ref_batchnorm_run_merge(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    double count;

    (void)ctx;
    TRY(ref_merge_count(&count, state, &in[0]));
    return merge_rows(state, in[0].data, in[0].shape.dim[0], count, in, out);
}

/* ---- statistics of data, merged at once ---- */

static Status prepare_moments(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const int64_t channels = in_value(g, n, 0)->shape->dim[1];
    const MergePlan p = { .channels = channels,
                          .keep = node_float(n, "keep"),
                          .take = node_float(n, "take"),
                          .unbiased = node_int(n, "unbiased"),
                          .running = { has_in(n, 1), has_in(n, 2) } };
    const size_t row = (size_t)(2 * channels + 1) * sizeof(double);

    ctx->scratch_bytes = row > ctx->scratch_bytes ? row : ctx->scratch_bytes;
    return kernel_state(state, &p, sizeof p);
}

static Status run_moments(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    BatchNorm data = batch_norm_of(&in[0].shape, LAYOUT_ROWS);
    Tensor row = { .dtype = DT_FLOAT64, .data = ctx->scratch };

    TRY(run_stats(ctx, &data, in, &row));
    return merge_rows(state, ctx->scratch, 1, *(const double *)ctx->scratch, in, out);
}

static Status prepare_sets(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *sets = in_value(g, n, 1)->shape;
    const MergePlan p = { .sets = sets->dim[0],
                          .channels = sets->dim[1],
                          .keep = node_float(n, "keep"),
                          .take = node_float(n, "take"),
                          .unbiased = node_int(n, "unbiased"),
                          .average = node_int(n, "average") != 0 };

    (void)ctx;
    return kernel_state(state, &p, sizeof p);
}

static Status run_sets(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const MergePlan *p = state;
    const double *rows = in[0].data;

    (void)ctx;
    for (int k = 0; k < 2; k++)
        for (int64_t c = 0; c < p->channels; c++) {
            double sum = 0;

            for (int64_t r = 0; r < p->sets; r++) {
                const double *row = rows + r * (2 * p->channels + 1),
                             old = tensor_float(&in[1 + k], r * p->channels + c);
                const bool counts = r < in[0].shape.dim[0] && row[0] > 0;
                double next = old;

                if (counts)
                    next = old * p->keep +
                           p->take *
                               (k ? row[1 + p->channels + c] / row[0] * ref_merge_correction(p, row[0]) : row[1 + c]);
                tensor_set_float(&out[2 + k], r * p->channels + c, next);
                sum += r && !p->average ? 0 : next;
            }
            tensor_set_float(&out[k], c, p->average ? sum / (double)p->sets : sum);
        }
    return ST_OK;
}

static Status run_group_sums(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const int64_t each = tensor_numel(&out[0]), n = tensor_numel(&in[0]);

    (void)ctx, (void)state;
    for (int64_t c = 0; c < each; c++) {
        double sum = 0;

        for (int64_t i = c; i < n; i += each)
            sum += tensor_float(&in[0], i);
        tensor_set_float(&out[0], c, sum);
    }
    return ST_OK;
}

static Status run_grad_params(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    size_t half = tensor_bytes(&in[0]) / 2;

    (void)ctx, (void)state;
    if (half) {
        memcpy(out[1].data, in[0].data, half);
        memcpy(out[0].data, (const char *)in[0].data + half, half);
    }
    return ST_OK;
}

static bool trains(const Graph *g, const Node *n)
{
    (void)g;
    return node_int(n, "training_mode") && !node_int(n, "sets");
}

static bool infers(const Graph *g, const Node *n)
{
    (void)g;
    return !node_int(n, "training_mode");
}

#define COMMON .dtypes = DTYPES_F32_F64, .prepare = batch_norm_prepare, .release = free

DEFINE_KERNEL(ref_batch_normalization, .op = &op_BatchNormalization, COMMON, .supports = infers, .run = run_norm);
DEFINE_KERNEL(ref_batch_normalization_training, .op = &op_BatchNormalization, COMMON, .supports = trains,
              .run = run_train);
DEFINE_KERNEL(ref_batch_norm_stats, .op = &op_BatchNormStats, COMMON, .run = run_stats);
DEFINE_KERNEL(ref_batch_norm_merge, .op = &op_BatchNormMerge, .prepare = ref_merge_prepare,
              .run = ref_batchnorm_run_merge, .release = free);
DEFINE_KERNEL(ref_batch_norm_moments, .op = &op_BatchNormMoments, .dtypes = DTYPES_F32_F64, .prepare = prepare_moments,
              .run = run_moments, .release = free);
DEFINE_KERNEL(ref_batch_norm_sets, .op = &op_BatchNormSets, .prepare = prepare_sets, .run = run_sets, .release = free);
DEFINE_KERNEL(ref_batch_norm_group_sums, .op = &op_BatchNormGroupSums, .dtypes = DTYPES_F32_F64, .run = run_group_sums);
DEFINE_KERNEL(ref_batch_norm_apply, .op = &op_BatchNormApply, COMMON, .run = run_apply);
DEFINE_KERNEL(ref_batch_norm_grad_stats, .op = &op_BatchNormGradStats, COMMON, .run = run_grad_stats);
DEFINE_KERNEL(ref_batch_norm_grad_input, .op = &op_BatchNormGradInput, COMMON, .run = run_grad_input);
DEFINE_KERNEL(ref_batch_norm_grad_params, .op = &op_BatchNormGradParams, .dtypes = DTYPES_F32_F64,
              .run = run_grad_params);
