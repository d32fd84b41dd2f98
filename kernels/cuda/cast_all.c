/* CastAll: as many tensors to a launch as its table holds (kernels/cuda/device/cast_all.cu). */
#include <stdlib.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/tensors.h"

typedef struct { int count; GpuKernel *kernel; } Plan;

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Plan *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->count = n->n_in;
    if ((st = cuda_kernel(&p->kernel, ctx, "cast_all", value(g, n->out[0])->dtype))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

static Status launch(const KernelCtx *ctx, const Plan *p, UpdateTable *t)
{
    unsigned blocks = t->block[t->n];

    if (!t->n)
        return ST_OK;
    TRY(cuda_launch(ctx, p->kernel, blocks, UPDATE_THREADS, 0, CUDA_ARGS(t)));
    t->n = 0;
    return ST_OK;
}

static Status run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    UpdateTable t = { 0 };

    for (int i = 0; i < p->count; i++) {
        if (!tensor_numel(&in[i]))
            continue;
        *add_tensor(&t, tensor_numel(&in[i])) = (UpdateTensors){ .w = out[i].data, .g = in[i].data };
        if (t.n == UPDATE_MOST)
            TRY(launch(ctx, p, &t));
    }
    return launch(ctx, p, &t);
}

DEFINE_KERNEL(cuda_cast_all, .op = &op_CastAll, .dtypes = DTYPE_BIT(DT_FLOAT32), .channels_last = true, .prepare = prepare, .run = run,
    .release = free);
