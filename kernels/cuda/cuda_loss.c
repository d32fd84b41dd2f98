/* Losses over class numbers and single elements, and the count of right answers (kernels/cuda/device/loss.cu).  How
 * many parts a sum has depends on shapes alone, so that its bits do not depend on the device. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/loss.gen.h"
#include "graph/ops/metric.gen.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/expr.h"
#include "kernels/cuda/nll.h"
#include "kernels/cuda/rows.h"

/* ---- class numbers: scores [N, C, inner], target [N, inner] ---- */

enum { SAMPLES_PER_THREAD = 4, CHUNKS_PER_LANE = 4, INDEX_BITS_32 = 1 << 30 };

typedef struct {
    NllBox box;        /* of class numbers */
    int kind;          /* of a loss of one element against one, a LossKind */
    int n_in, weights; /* weights: the input that holds them, if it is there */
    unsigned blocks;
    GpuKernel *kernel, *finish;
} Loss;

static int lanes_for(int64_t chunks)
{
    int lanes = 1;

    while (lanes < chunks && lanes < WARP_SIZE)
        lanes *= 2;
    return lanes;
}

NllBox cuda_nll_box(const Shape *scores, const Value *target, const Node *n)
{
    const Attr *smoothing = node_attr(n, "label_smoothing");

    return (NllBox){ .samples = shape_numel(target->shape),
                     .classes = scores->dim[1],
                     .inner = shape_count(scores, 2, scores->rank),
                     .ignore = node_int(n, "ignore_index"),
                     .smoothing = smoothing ? smoothing->f : 0,
                     .wide = target->dtype == DT_INT64,
                     .lanes = 1 };
}

/* `whole`: all scores of a sample are looked at, by as many lanes as there is work for. */
static void plan_samples(Loss *p, const Shape *x, const Value *target, const Node *n, bool whole)
{
    p->n_in = n->n_in;
    p->box = cuda_nll_box(x, target, n);
    if (whole || p->box.smoothing != 0)
        p->box.lanes = p->box.inner == 1 ? lanes_for(x->dim[1] / CHUNKS_PER_LANE) : 1;
    p->blocks = cuda_blocks(p->box.samples, LOSS_THREADS / p->box.lanes * SAMPLES_PER_THREAD, LOSS_BLOCKS);
}

/* Scratch for the parts that the blocks of a sum leave. */
static void need_parts(KernelCtx *ctx, unsigned blocks)
{
    need_scratch(ctx, blocks > 1 ? blocks * 2 * sizeof(double) : 0);
}

static Status cuda_loss_find_kernels(Loss *p, const KernelCtx *ctx, const char *name, DType scores, DType sums)
{
    TRY(cuda_kernel(&p->kernel, ctx, name, scores));
    return sums ? cuda_kernel(&p->finish, ctx, "loss_finish", sums) : ST_OK;
}

static Status cuda_loss_give(void **state, Loss *p, Status st)
{
    if (st)
        free(p);
    else
        *state = p;
    return st;
}

static Status prepare_nll(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    const bool sum = n->op == &op_NllSum;
    Loss *p = calloc(1, sizeof *p);

    if (!p)
        return FAIL_NOMEM();
    plan_samples(p, x->shape, in_value(g, n, 1), n, false);
    if (sum)
        need_parts(ctx, p->blocks);
    p->weights = 2;
    return cuda_loss_give(
        state, p, cuda_loss_find_kernels(p, ctx, sum ? "nll_sum" : "nll_each", x->dtype, sum ? x->dtype : DT_NONE));
}

static const void *weights_of(const Loss *p, const Tensor *in)
{
    return p->weights < p->n_in ? in[p->weights].data : NULL;
}

Status cuda_loss_finish(const KernelCtx *ctx, GpuKernel *kernel, unsigned parts, void *a, void *b)
{
    int count = (int)parts;

    return parts > 1 ? cuda_launch(ctx, kernel, 1, LOSS_THREADS, 0, CUDA_ARGS(&a, &b, (void *)&ctx->scratch, &count))
                     : ST_OK;
}

static Status cuda_loss_run_nll_sum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Loss *p = state;
    const void *w = weights_of(p, in);

    TRY(cuda_launch(
        ctx, p->kernel, p->blocks, LOSS_THREADS, 0,
        CUDA_ARGS(&p->box, (void *)&in[0].data, (void *)&in[1].data, &w, &out[0].data, &out[1].data, &ctx->scratch)));
    return cuda_loss_finish(ctx, p->finish, p->blocks, out[0].data, out[1].data);
}

static Status run_nll_each(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Loss *p = state;
    const void *w = weights_of(p, in);

    return cuda_launch(ctx, p->kernel, p->blocks, LOSS_THREADS, 0,
                       CUDA_ARGS(&p->box, (void *)&in[0].data, (void *)&in[1].data, &w, &out[0].data));
}

static Status prepare_nll_grad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *dx = value(g, n->out[0]);
    const int64_t elements = shape_numel(dx->shape);
    Loss *p = calloc(1, sizeof *p);

    if (!p)
        return FAIL_NOMEM();
    plan_samples(p, dx->shape, in_value(g, n, 1), n, false);
    p->weights = 3;
    p->blocks =
        cuda_blocks(elements + cuda_chunk(dx->dtype), (int64_t)LOSS_THREADS * cuda_chunk(dx->dtype), MOST_BLOCKS);
    return cuda_loss_give(
        state, p,
        cuda_loss_find_kernels(p, ctx, elements < INDEX_BITS_32 ? "nll_grad" : "nll_grad_wide", dx->dtype, DT_NONE));
}

static Status cuda_loss_run_nll_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Loss *p = state;
    const void *w = weights_of(p, in);
    int scalar = in[0].shape.rank == 0;

    if (!tensor_numel(out))
        return ST_OK;
    return cuda_launch(ctx, p->kernel, p->blocks, LOSS_THREADS, 0,
                       CUDA_ARGS(&p->box, (void *)&in[0].data, (void *)&in[1].data, &w, &out[0].data, &scalar));
}

DEFINE_KERNEL(cuda_nll_sum, .op = &op_NllSum, .dtypes = DTYPES_F32_F64, .prepare = prepare_nll,
              .run = cuda_loss_run_nll_sum, .release = free);
DEFINE_KERNEL(cuda_nll_per_sample, .op = &op_NllPerSample, .dtypes = DTYPES_F32_F64, .prepare = prepare_nll,
              .run = run_nll_each, .release = free);
DEFINE_KERNEL(cuda_nll_grad, .op = &op_NllGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare_nll_grad,
              .run = cuda_loss_run_nll_grad, .release = free);

/* ---- right answers ---- */

static Status prepare_accuracy(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    Loss *p = calloc(1, sizeof *p);

    if (!p)
        return FAIL_NOMEM();
    plan_samples(p, x->shape, in_value(g, n, 1), n, true);
    need_parts(ctx, p->blocks);
    return cuda_loss_give(state, p, cuda_loss_find_kernels(p, ctx, "accuracy", x->dtype, DT_INT64));
}

static Status cuda_loss_run_accuracy(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Loss *p = state;

    TRY(cuda_launch(
        ctx, p->kernel, p->blocks, LOSS_THREADS, 0,
        CUDA_ARGS(&p->box, (void *)&in[0].data, (void *)&in[1].data, &out[0].data, &out[1].data, &ctx->scratch)));
    return cuda_loss_finish(ctx, p->finish, p->blocks, out[0].data, out[1].data);
}

DEFINE_KERNEL(cuda_accuracy_count, .op = &op_AccuracyCount, .dtypes = DTYPES_F32_F64, .prepare = prepare_accuracy,
              .run = cuda_loss_run_accuracy, .release = free);

/* ---- one element against one element ---- */

/* Names of kinds, in the order of LossKind, and of the functions that are their gradients. */
static const struct {
    const char *kind, *gradient;
} kinds[] = {
    { "mse", "mse_grad" },
    { "l1", "l1_grad" },
    { "bce", "bce_grad" },
    { "bce-logits", "bce_logits_grad" },
};

static LossKind kind_of(const Node *n)
{
    int i = LOSS_MSE;

    while (i < LOSS_BCE_LOGITS && strcmp(node_string(n, "kind"), kinds[i].kind))
        i++;
    return (LossKind)i;
}

static Status prepare_element(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    Loss *p = calloc(1, sizeof *p);

    if (!p)
        return FAIL_NOMEM();
    p->kind = kind_of(n);
    p->blocks =
        cuda_blocks(shape_numel(x->shape), (int64_t)LOSS_THREADS * CHUNKS_PER_LANE * cuda_chunk(x->dtype), LOSS_BLOCKS);
    need_parts(ctx, p->blocks);
    return cuda_loss_give(state, p, cuda_loss_find_kernels(p, ctx, "element_sum", x->dtype, x->dtype));
}

static Status run_element(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Loss *p = state;
    int64_t n = tensor_numel(&in[0]);

    TRY(cuda_launch(ctx, p->kernel, p->blocks, LOSS_THREADS, 0,
                    CUDA_ARGS(&p->kind, (void *)&in[0].data, (void *)&in[1].data, &n, &out[0].data, &ctx->scratch)));
    return cuda_loss_finish(ctx, p->finish, p->blocks, out[0].data, NULL);
}

DEFINE_KERNEL(cuda_element_loss_sum, .op = &op_ElementLossSum, .dtypes = DTYPES_F32_F64, .prepare = prepare_element,
              .run = run_element, .release = free);

static void write_gradient(FILE *f, const Graph *g, const Node *n, const char *const *arg)
{
    (void)g;
    fprintf(f, "ew::%s(%s, %s, %s, %s)", kinds[kind_of(n)].gradient, arg[0], arg[1], arg[2],
            node_int(n, "by") ? "true" : "false");
}

DEFINE_EXPR(cuda_element_loss_grad, ElementLossGrad, .write = write_gradient);
