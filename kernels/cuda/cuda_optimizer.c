/* The norm of gradients and whether they are finite, all tensors in one launch (kernels/cuda/device/optimizer.cu); the
 * scale of the loss. */
#include <stdio.h>
#include <stdlib.h>

#include "graph/ops/optimizer.gen.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/tensors.h"
#include "kernels/ref/loss_scale.h"

/* ---- over all gradients: a number from each block of the table, then one of those ---- */

typedef struct {
    TensorsKernel each;
    int64_t blocks;
    double max_norm; /* of GlobalNorm, as is the next */
    bool scaled;     /* the input behind the tensors multiplies them */
    GpuKernel *finish;
} Over;

/* Kernels "BASE_blocks_T" and "BASE_finish_T"; a block's number takes `bytes`. */
static Status prepare_over(void **state, KernelCtx *ctx, const Graph *g, const Node *n, int n_tensor, const char *base,
                           size_t bytes)
{
    Over *p = calloc(1, sizeof *p);
    char name[32];
    Status st;

    if (!p)
        return FAIL_NOMEM();
    count_inputs(&p->each, ctx, g, n, n_tensor);
    p->blocks = p->each.size.blocks;
    snprintf(name, sizeof name, "%s_blocks", base);
    TRY_TO(fail, st, cuda_kernel(&p->each.kernel, ctx, name, in_value(g, n, 0)->dtype));
    snprintf(name, sizeof name, "%s_finish", base);
    TRY_TO(fail, st, cuda_kernel(&p->finish, ctx, name, in_value(g, n, 0)->dtype));
    bytes *= (size_t)p->blocks;
    ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
    *state = p;
    return ST_OK;
fail:
    free(p);
    return st;
}

static void tabulate_over(void *table, const void *state, const Tensor *in, const Tensor *out)
{
    const Over *p = state;
    TableFill to = table_fill(table, &p->each.size);

    (void)out;
    for (int i = 0; i < p->each.n; i++)
        if (tensor_numel(&in[i]))
            add_tensor(&to, tensor_numel(&in[i]))->g = in[i].data;
}

static Status run_blocks(const KernelCtx *ctx, const Over *p)
{
    UpdateTable t = table_at(ctx->table, &p->each.size);
    void *partial = ctx->scratch;

    return p->each.size.n
               ? cuda_launch(ctx, p->each.kernel, p->each.size.blocks, UPDATE_THREADS, 0, CUDA_ARGS(&t, &partial))
               : ST_OK;
}

static Status cuda_optimizer_prepare_norm(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool scaled = node_int(n, "scaled") != 0;
    Over *p;

    TRY(prepare_over(state, ctx, g, n, n->n_in - scaled, "norm", sizeof(double)));
    p = *state;
    p->scaled = scaled;
    p->max_norm = node_float(n, "max_norm");
    return ST_OK;
}

static Status cuda_optimizer_run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Over a = *(const Over *)state;
    const void *by = a.scaled ? in[a.each.n].data : NULL;

    TRY(run_blocks(ctx, &a));
    return cuda_launch(ctx, a.finish, 1, ROW_THREADS, 0,
                       CUDA_ARGS(&ctx->scratch, &a.blocks, &a.max_norm, &by, &out[0].data, &out[1].data));
}

DEFINE_KERNEL(cuda_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .layouts = kernel_channels_last,
              .prepare = cuda_optimizer_prepare_norm, .tabulate = tabulate_over, .run = cuda_optimizer_run_norm,
              .release = free);

static Status prepare_finite(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return prepare_over(state, ctx, g, n, n->n_in, "finite", sizeof(int));
}

static Status run_finite(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Over a = *(const Over *)state;

    (void)in;
    TRY(run_blocks(ctx, &a));
    return cuda_launch(ctx, a.finish, 1, ROW_THREADS, 0, CUDA_ARGS(&ctx->scratch, &a.blocks, &out[0].data));
}

DEFINE_KERNEL(cuda_all_finite, .op = &op_AllFinite, .dtypes = DTYPES_F32_F64, .layouts = kernel_channels_last,
              .prepare = prepare_finite, .tabulate = tabulate_over, .run = run_finite, .release = free);

/* ---- the loss's scale ---- */

typedef struct {
    LossScale scale;
    GpuKernel *kernel;
} Scale;

static Status prepare_scale(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Scale *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->scale = loss_scale_read(n);
    if ((st = cuda_kernel(&p->kernel, ctx, "loss_scale", in_value(g, n, 0)->dtype))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

static Status run_scale(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Scale a = *(const Scale *)state;

    return cuda_launch(ctx, a.kernel, 1, WARP_SIZE, 0,
                       CUDA_ARGS((void *)&in[0].data, (void *)&in[1].data, (void *)&in[2].data, &out[0].data,
                                 &out[1].data, &a.scale.growth, &a.scale.backoff, &a.scale.interval));
}

DEFINE_KERNEL(cuda_loss_scale_update, .op = &op_LossScaleUpdate, .dtypes = DTYPES_F32_F64, .prepare = prepare_scale,
              .run = run_scale, .release = free);
