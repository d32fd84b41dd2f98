/* Parameter updates, the norm of gradients and whether they are finite, all tensors in one launch
 * (kernels/cuda/device/optimizer.cu); the scale of the loss.  States are changed in place; where the plan could not lay
 * an output over its state, the state is copied there first. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/rows.h"
#include "kernels/cuda/tensors.h"

/* ---- which input is what ---- */

typedef struct {
    int count, n_state;
    int state[3], gradient, lr, step, scale, apply; /* inputs of the first parameter; -1: absent */
    int stride;                                     /* from one parameter's states to the next one's */
    double a, b, eps, decay;                        /* momentum; beta1, beta2 */
    int flag;                                       /* nesterov; decoupled */
    TableSize size;
    GpuKernel *kernel;
} Plan;

/* Input i, or -1. */
static int given(const Node *n, int i) { return has_in(n, i) ? i : -1; }

static void layout_all(Plan *p, const Node *n, bool adam)
{
    p->count = (int)node_int(n, "count");
    p->n_state = p->stride = n->n_out / p->count;
    for (int i = 0; i < 3; i++)
        p->state[i] = i < p->n_state ? i : -1;
    p->gradient = n->n_out;
    p->lr = p->gradient + p->count;
    p->step = adam ? p->lr + 1 : -1;
    p->scale = given(n, p->lr + (adam ? 2 : 1));
    p->apply = given(n, p->lr + (adam ? 3 : 2));
}

static void layout_one(Plan *p, const Node *n, bool adam)
{
    *p = (Plan){ .count = 1,
                 .n_state = n->n_out,
                 .state = { 0, n->n_out > 1 ? 3 : -1, adam ? 4 : -1 },
                 .gradient = 1,
                 .lr = 2,
                 .step = adam ? 5 : -1,
                 .scale = -1,
                 .apply = given(n, adam ? 6 : 4) };
}

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool adam = n->op == &op_AdamUpdate || n->op == &op_AdamUpdateAll;
    Plan *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    (n->op == &op_SgdUpdateAll || n->op == &op_AdamUpdateAll ? layout_all : layout_one)(p, n, adam);
    for (int i = 0; i < p->count; i++)
        count_tensor(&p->size, shape_numel(&in_value(g, n, p->gradient + i)->shape));
    ctx->table_bytes = table_bytes(&p->size);
    p->decay = node_float(n, "weight_decay");
    p->a = node_float(n, adam ? "beta1" : "momentum");
    p->flag = node_int(n, adam ? "decoupled" : "nesterov") != 0;
    if (adam) {
        p->b = node_float(n, "beta2");
        p->eps = node_float(n, "eps");
    }
    if ((st = cuda_kernel(&p->kernel, ctx,
                          adam             ? "adam"
                          : p->n_state > 1 ? "sgd_momentum"
                                           : "sgd",
                          in_value(g, n, 0)->dtype))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

/* ---- all parameters ---- */

static const void *address(const Tensor *in, int i) { return i < 0 ? NULL : in[i].data; }

static void tabulate(void *table, const void *state, const Tensor *in, const Tensor *out)
{
    const Plan *p = state;
    TableFill to = table_fill(table, &p->size);

    for (int i = 0; i < p->count; i++) {
        const Tensor *g = &in[p->gradient + i], *own = &out[i * p->n_state];
        UpdateTensor *t = tensor_numel(g) ? add_tensor(&to, tensor_numel(g)) : NULL;

        if (!t)
            continue;
        t->g = g->data;
        t->w = own[0].data;
        t->m = p->n_state > 1 ? own[1].data : NULL;
        t->v = p->n_state > 2 ? own[2].data : NULL;
    }
}

/* The states to where they are changed, where that is elsewhere. */
static Status move_states(const KernelCtx *ctx, const Plan *p, const Tensor *in, Tensor *out)
{
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < p->n_state; k++) {
            const Tensor *from = &in[i * p->stride + p->state[k]];
            Tensor *to = &out[i * p->n_state + k];

            if (to->data != from->data && tensor_bytes(to))
                TRY_CUDA(ctx, runtime.copy(ctx->stream, to->data, from->data, tensor_bytes(to)));
        }
    return ST_OK;
}

static Status run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Plan a = *(const Plan *)state;
    UpdateTable t = table_at(ctx->table, &a.size);
    const void *lr = in[a.lr].data, *step = address(in, a.step), *scale = address(in, a.scale),
               *apply = address(in, a.apply);

    if (!a.size.n)
        return ST_OK;
    TRY(move_states(ctx, &a, in, out));
    if (a.step < 0)
        return cuda_launch(ctx, a.kernel, a.size.blocks, UPDATE_THREADS, 0,
                           CUDA_ARGS(&t, &lr, &scale, &apply, &a.a, &a.decay, &a.flag));
    return cuda_launch(ctx, a.kernel, a.size.blocks, UPDATE_THREADS, 0,
                       CUDA_ARGS(&t, &lr, &step, &scale, &apply, &a.a, &a.b, &a.eps, &a.decay, &a.flag));
}

#define UPDATE                                                                                                       \
    .dtypes = DTYPES_F32_F64, .layouts = kernel_channels_last, .prepare = prepare, .tabulate = tabulate, .run = run, \
    .release = free

DEFINE_KERNEL(cuda_sgd_update, .op = &op_SgdUpdate, UPDATE);
DEFINE_KERNEL(cuda_sgd_update_all, .op = &op_SgdUpdateAll, UPDATE);
DEFINE_KERNEL(cuda_adam_update, .op = &op_AdamUpdate, UPDATE);
DEFINE_KERNEL(cuda_adam_update_all, .op = &op_AdamUpdateAll, UPDATE);

/* ---- over all gradients: a number from each block of the table, then one of those ---- */

typedef struct {
    int n;
    TableSize size;
    int64_t blocks;
    double max_norm;
    bool scaled;
    GpuKernel *each, *finish;
} Over; /* n: tensors */

/* Kernels "BASE_blocks_T" and "BASE_finish_T"; a block's number takes `bytes`. */
static Status prepare_over(void **state, KernelCtx *ctx, const Graph *g, const Node *n, int n_tensor, const char *base,
                           size_t bytes)
{
    Over *p = calloc(1, sizeof *p);
    char name[32];
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->n = n_tensor;
    for (int i = 0; i < p->n; i++)
        count_tensor(&p->size, shape_numel(&in_value(g, n, i)->shape));
    p->blocks = p->size.blocks;
    ctx->table_bytes = table_bytes(&p->size);
    snprintf(name, sizeof name, "%s_blocks", base);
    TRY_TO(fail, st, cuda_kernel(&p->each, ctx, name, in_value(g, n, 0)->dtype));
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
    TableFill to = table_fill(table, &p->size);

    (void)out;
    for (int i = 0; i < p->n; i++)
        if (tensor_numel(&in[i]))
            add_tensor(&to, tensor_numel(&in[i]))->g = in[i].data;
}

static Status run_blocks(const KernelCtx *ctx, const Over *p)
{
    UpdateTable t = table_at(ctx->table, &p->size);
    void *partial = ctx->scratch;

    return p->size.n ? cuda_launch(ctx, p->each, p->size.blocks, UPDATE_THREADS, 0, CUDA_ARGS(&t, &partial)) : ST_OK;
}

static Status prepare_norm(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool scaled = node_int(n, "scaled") != 0;
    Over *p;

    TRY(prepare_over(state, ctx, g, n, n->n_in - scaled, "norm", sizeof(double)));
    p = *state;
    p->scaled = scaled;
    p->max_norm = node_float(n, "max_norm");
    return ST_OK;
}

static Status run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Over a = *(const Over *)state;
    const void *by = a.scaled ? in[a.n].data : NULL;

    TRY(run_blocks(ctx, &a));
    return cuda_launch(ctx, a.finish, 1, ROW_THREADS, 0,
                       CUDA_ARGS(&ctx->scratch, &a.blocks, &a.max_norm, &by, &out[0].data, &out[1].data));
}

DEFINE_KERNEL(cuda_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .layouts = kernel_channels_last,
              .prepare = prepare_norm, .tabulate = tabulate_over, .run = run_norm, .release = free);

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
    double growth, backoff;
    int64_t interval;
    GpuKernel *kernel;
} Scale;

static Status prepare_scale(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Scale *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    *p = (Scale){ .growth = node_float(n, "growth"),
                  .backoff = node_float(n, "backoff"),
                  .interval = node_int(n, "interval") };
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
                                 &out[1].data, &a.growth, &a.backoff, &a.interval));
}

DEFINE_KERNEL(cuda_loss_scale_update, .op = &op_LossScaleUpdate, .dtypes = DTYPES_F32_F64, .prepare = prepare_scale,
              .run = run_scale, .release = free);
