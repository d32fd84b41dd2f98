/* CastAll: all tensors in one launch (kernels/cuda/device/cast_all.cu). */
#include <stdlib.h>

#include "graph/ops/cast.gen.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/tensors.h"

static Status cast_all_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const DType from = in_value(g, n, 0)->dtype;
    TensorsKernel *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    count_inputs(p, ctx, g, n, n->n_in);
    if ((st = from == DT_FLOAT32 ? cuda_kernel(&p->kernel, ctx, "cast_all", value(g, n->out[0])->dtype)
                                 : cuda_kernel(&p->kernel, ctx, "cast_all_from", from))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

static void tabulate(void *table, const void *state, const Tensor *in, const Tensor *out)
{
    const TensorsKernel *p = state;
    TableFill to = table_fill(table, &p->size);

    for (int i = 0; i < p->n; i++) {
        UpdateTensor *t = tensor_numel(&in[i]) ? add_tensor(&to, tensor_numel(&in[i])) : NULL;

        if (t) {
            t->w = out[i].data;
            t->g = in[i].data;
        }
    }
}

static Status cast_all_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const TensorsKernel *p = state;
    UpdateTable t = table_at(ctx->table, &p->size);

    (void)in;
    (void)out;
    return p->size.n ? cuda_launch(ctx, p->kernel, p->size.blocks, UPDATE_THREADS, 0, CUDA_ARGS(&t)) : ST_OK;
}

DEFINE_KERNEL(cuda_cast_all, .op = &op_CastAll,
              .dtypes = DTYPE_BIT(DT_FLOAT32) | DTYPE_BIT(DT_FLOAT16) | DTYPE_BIT(DT_BFLOAT16),
              .layouts = kernel_channels_last, .prepare = cast_all_prepare, .tabulate = tabulate, .run = cast_all_run,
              .release = free);
