/* Parameter updates, the norm of gradients and whether they are finite, many tensors to a launch (kernels/cuda/device/optimizer.cu);
 * the scale of the loss.  States are changed in place; where the plan could not lay an output over its state, the state is copied
 * there first. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/rows.h"
#include "kernels/cuda/tensors.h"

/* ---- which input is what ---- */

typedef struct {
    int count, n_state;
    int state[3], gradient, lr, step, scale, apply;     /* inputs of the first parameter; -1: absent */
    int stride;                                 /* from one parameter's states to the next one's */
    double a, b, eps, decay;                    /* momentum; beta1, beta2 */
    int flag;                                   /* nesterov; decoupled */
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
    *p = (Plan){ .count = 1, .n_state = n->n_out, .state = { 0, n->n_out > 1 ? 3 : -1, adam ? 4 : -1 }, .gradient = 1, .lr = 2,
                 .step = adam ? 5 : -1, .scale = -1, .apply = given(n, adam ? 6 : 4) };
}

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool adam = n->op == &op_AdamUpdate || n->op == &op_AdamUpdateAll;
    Plan *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    (n->op == &op_SgdUpdateAll || n->op == &op_AdamUpdateAll ? layout_all : layout_one)(p, n, adam);
    p->decay = node_float(n, "weight_decay");
    p->a = node_float(n, adam ? "beta1" : "momentum");
    p->flag = node_int(n, adam ? "decoupled" : "nesterov") != 0;
    if (adam) {
        p->b = node_float(n, "beta2");
        p->eps = node_float(n, "eps");
    }
    if ((st = cuda_kernel(&p->kernel, ctx, adam ? "adam" : p->n_state > 1 ? "sgd_momentum" : "sgd", in_value(g, n, 0)->dtype))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

/* ---- tables ---- */

static const void *address(const Tensor *in, int i) { return i < 0 ? NULL : in[i].data; }

static Status launch(const KernelCtx *ctx, const Plan *p, UpdateTable *t, const Tensor *in)
{
    const void *lr = in[p->lr].data, *step = address(in, p->step), *scale = address(in, p->scale), *apply = address(in, p->apply);
    Plan a = *p;
    unsigned blocks = t->block[t->n];

    if (!t->n)
        return ST_OK;
    if (p->step < 0)
        TRY(cuda_launch(ctx, p->kernel, blocks, UPDATE_THREADS, 0, CUDA_ARGS(t, &lr, &scale, &apply, &a.a, &a.decay, &a.flag)));
    else
        TRY(cuda_launch(ctx, p->kernel, blocks, UPDATE_THREADS, 0,
                        CUDA_ARGS(t, &lr, &step, &scale, &apply, &a.a, &a.b, &a.eps, &a.decay, &a.flag)));
    t->n = 0;
    return ST_OK;
}

/* Parameter i's k-th state, where it is to be changed. */
static Status state_at(void **address, const KernelCtx *ctx, const Plan *p, int i, int k, const Tensor *in, Tensor *out)
{
    const Tensor *from = &in[i * p->stride + p->state[k]];
    Tensor *to = &out[i * p->n_state + k];

    *address = to->data;
    if (to->data != from->data)
        TRY_CUDA(ctx, runtime.copy(ctx->stream, to->data, from->data, tensor_bytes(to)));
    return ST_OK;
}

static Status run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    UpdateTable t = { 0 };

    for (int i = 0; i < p->count; i++) {
        const Tensor *g = &in[p->gradient + i];
        UpdateTensors *to;

        if (!tensor_numel(g))
            continue;
        to = add_tensor(&t, tensor_numel(g));
        *to = (UpdateTensors){ .g = g->data };
        for (int k = 0; k < p->n_state; k++)
            TRY(state_at(k == 0 ? &to->w : k == 1 ? &to->m : &to->v, ctx, p, i, k, in, out));
        if (t.n == UPDATE_MOST)
            TRY(launch(ctx, p, &t, in));
    }
    return launch(ctx, p, &t, in);
}

#define UPDATE .dtypes = DTYPES_F32_F64, .channels_last = true, .prepare = prepare, .run = run, .release = free

DEFINE_KERNEL(cuda_sgd_update, .op = &op_SgdUpdate, UPDATE);
DEFINE_KERNEL(cuda_sgd_update_all, .op = &op_SgdUpdateAll, UPDATE);
DEFINE_KERNEL(cuda_adam_update, .op = &op_AdamUpdate, UPDATE);
DEFINE_KERNEL(cuda_adam_update_all, .op = &op_AdamUpdateAll, UPDATE);

/* ---- over all gradients: a number from each block of the table, then one of those ---- */

typedef struct { int n; int64_t blocks; double max_norm; bool scaled; GpuKernel *each, *finish; } Over;     /* n: tensors */

/* Kernels "BASE_blocks_T" and "BASE_finish_T"; a block's number takes `bytes`. */
static Status prepare_over(void **state, KernelCtx *ctx, const Graph *g, const Node *n, int n_tensor, const char *base, size_t bytes)
{
    Over *p = calloc(1, sizeof *p);
    char name[32];
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->n = n_tensor;
    for (int i = 0; i < p->n; i++)
        p->blocks += (shape_numel(&in_value(g, n, i)->shape) + UPDATE_WORK - 1) / UPDATE_WORK;
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

/* The numbers of the table's blocks, from the *at-th of ctx->scratch on. */
static Status launch_blocks(const KernelCtx *ctx, const Over *p, UpdateTable *t, int64_t *at, size_t bytes)
{
    char *partial = (char *)ctx->scratch + (size_t)*at * bytes;

    if (!t->n)
        return ST_OK;
    TRY(cuda_launch(ctx, p->each, t->block[t->n], UPDATE_THREADS, 0, CUDA_ARGS(t, &partial)));
    *at += t->block[t->n];
    t->n = 0;
    return ST_OK;
}

static Status run_blocks(const KernelCtx *ctx, const Over *p, const Tensor *in, size_t bytes)
{
    UpdateTable t = { 0 };
    int64_t at = 0;

    for (int i = 0; i < p->n; i++) {
        if (!tensor_numel(&in[i]))
            continue;
        *add_tensor(&t, tensor_numel(&in[i])) = (UpdateTensors){ .g = in[i].data };
        if (t.n == UPDATE_MOST)
            TRY(launch_blocks(ctx, p, &t, &at, bytes));
    }
    return launch_blocks(ctx, p, &t, &at, bytes);
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

    TRY(run_blocks(ctx, &a, in, sizeof(double)));
    return cuda_launch(ctx, a.finish, 1, ROW_THREADS, 0, CUDA_ARGS(&ctx->scratch, &a.blocks, &a.max_norm, &by, &out[0].data, &out[1].data));
}

DEFINE_KERNEL(cuda_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .channels_last = true, .prepare = prepare_norm,
    .run = run_norm, .release = free);

static Status prepare_finite(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return prepare_over(state, ctx, g, n, n->n_in, "finite", sizeof(int));
}

static Status run_finite(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Over a = *(const Over *)state;

    TRY(run_blocks(ctx, &a, in, sizeof(int)));
    return cuda_launch(ctx, a.finish, 1, ROW_THREADS, 0, CUDA_ARGS(&ctx->scratch, &a.blocks, &out[0].data));
}

DEFINE_KERNEL(cuda_all_finite, .op = &op_AllFinite, .dtypes = DTYPES_F32_F64, .channels_last = true, .prepare = prepare_finite,
    .run = run_finite, .release = free);

/* ---- the loss's scale ---- */

typedef struct { double growth, backoff; int64_t interval; GpuKernel *kernel; } Scale;

static Status prepare_scale(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Scale *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    *p = (Scale){ .growth = node_float(n, "growth"), .backoff = node_float(n, "backoff"), .interval = node_int(n, "interval") };
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

    return cuda_launch(ctx, a.kernel, 1, WARP_SIZE, 0, CUDA_ARGS((void *)&in[0].data, (void *)&in[1].data, (void *)&in[2].data, &out[0].data,
                                                                &out[1].data, &a.growth, &a.backoff, &a.interval));
}

DEFINE_KERNEL(cuda_loss_scale_update, .op = &op_LossScaleUpdate, .dtypes = DTYPES_F32_F64, .prepare = prepare_scale, .run = run_scale,
    .release = free);
