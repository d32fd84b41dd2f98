/* Cross-entropy of scores and class numbers, and its gradient (kernels/cuda/device/cross_entropy.cu).  Who computes
 * what depends on shapes alone, so that the bits do not depend on the device. */
#include <stdio.h>
#include <stdlib.h>

#include "graph/ops/cross_entropy.gen.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/nll.h"
#include "kernels/cuda/rows.h"

enum { LONG_ROW = 4 * WARP_SIZE, WARPS = LOSS_THREADS / WARP_SIZE, TILES_WANTED = 1 << 10, CLASSES_PER_WARP = 16 };

typedef struct {
    NllBox box;
    bool grad, rows, even; /* even: columns begin on 16-byte boundaries if the tensor does */
    DType dtype;
    size_t scores; /* bytes of the state of a column's classes, of one part */
    unsigned blocks, merge_blocks;
    GpuKernel *kernel, *wide, *merge,
        *finish; /* wide: reads whole chunks of tensors that begin on 16-byte boundaries */
} Plan;

static size_t sum_bytes(DType t) { return t == DT_FLOAT64 ? sizeof(double) : sizeof(float); }
static DType sum_type(DType t) { return t == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32; }

static Status cuda_cross_entropy_find(GpuKernel **out, const KernelCtx *ctx, const Plan *p, const char *variant)
{
    char name[64];

    snprintf(name, sizeof name, "cross_entropy_%s%s", p->grad ? "grad_" : "", variant);
    return cuda_kernel(out, ctx, name, p->dtype);
}

/* ---- rows: lanes of a warp, or a block ---- */

static Status plan_rows(Plan *p, const KernelCtx *ctx)
{
    const int64_t chunks = p->box.classes / cuda_chunk(p->dtype) + 1;

    while (p->box.lanes < WARP_SIZE && 2 * p->box.lanes < chunks)
        p->box.lanes *= 2;
    p->blocks = cuda_blocks(p->box.samples, chunks > LONG_ROW ? 1 : LOSS_THREADS / p->box.lanes,
                            p->grad ? MOST_BLOCKS : LOSS_BLOCKS);
    p->merge_blocks = p->blocks;
    if (!p->grad && chunks > LONG_ROW && p->box.classes % cuda_chunk(p->dtype) == 0 && dtype_size(p->dtype) == 2)
        TRY(cuda_cross_entropy_find(&p->wide, ctx, p, "whole"));
    return cuda_cross_entropy_find(&p->kernel, ctx, p, chunks > LONG_ROW ? "block" : "lanes");
}

/* ---- columns ---- */

static int64_t tiles_of(const Plan *p, int width)
{
    return p->box.samples / p->box.inner * ((p->box.inner / width + WARP_SIZE - 1) / WARP_SIZE);
}

/* Blocks that the classes of a tile are dealt to. */
static int cuda_cross_entropy_parts_of(const Plan *p, int width)
{
    int64_t wanted = TILES_WANTED / (tiles_of(p, width) + 1) + 1,
            most = p->box.classes / (WARPS * CLASSES_PER_WARP) + 1;

    return (int)(wanted < most ? wanted : most);
}

/* Columns of whole accesses are for tensors that begin on a boundary, which is known when they are there; scratch
 * suffices for both. */
static Status plan_columns(Plan *p, const KernelCtx *ctx)
{
    const int v = cuda_chunk(p->dtype);

    p->even = p->box.inner && p->box.inner % v == 0;
    p->merge_blocks = cuda_blocks(p->box.samples, LOSS_THREADS, LOSS_BLOCKS);
    TRY(cuda_cross_entropy_find(&p->kernel, ctx, p, "columns"));
    TRY(cuda_cross_entropy_find(&p->wide, ctx, p, "wide"));
    return p->grad ? ST_OK : cuda_cross_entropy_find(&p->merge, ctx, p, "merge");
}

static size_t partial_bytes(const Plan *p) { return cuda_aligned(p->merge_blocks * 2 * sizeof(double)); }

static void ask_scratch(const Plan *p, KernelCtx *ctx)
{
    const int narrow = p->rows || !p->box.inner ? 0 : cuda_cross_entropy_parts_of(p, 1),
              wide = p->even ? cuda_cross_entropy_parts_of(p, cuda_chunk(p->dtype)) : 0;

    if (!p->grad)
        need_scratch(ctx,
                     partial_bytes(p) + (size_t)(narrow > wide ? narrow : wide) * (size_t)p->box.samples * p->scores);
}

static Status cuda_cross_entropy_find_kernels(Plan *p, KernelCtx *ctx)
{
    TRY((p->rows ? plan_rows : plan_columns)(p, ctx));
    if (!p->grad)
        TRY(cuda_kernel(&p->finish, ctx, "loss_finish", sum_type(p->dtype)));
    ask_scratch(p, ctx);
    return ST_OK;
}

static Status cuda_cross_entropy_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool grad = n->op == &op_CrossEntropyGrad;
    const Value *x = in_value(g, n, grad), *target = in_value(g, n, grad + 1);
    Plan *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->grad = grad;
    p->dtype = x->dtype;
    p->box = cuda_nll_box(x->shape, target, n);
    p->rows = p->box.inner == 1;
    p->scores = 3 * sum_bytes(x->dtype);
    if ((st = cuda_cross_entropy_find_kernels(p, ctx))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

static unsigned tile_blocks(const Plan *p, int width, int parts)
{
    return cuda_blocks(tiles_of(p, width) * parts, 1, MOST_BLOCKS);
}

/* ---- forward ---- */

/* Columns: the parts' results to `part`, then their sums. */
static Status cuda_cross_entropy_run_columns(const KernelCtx *ctx, Plan *p, const Tensor *in, Tensor *out)
{
    const bool wide = p->even && !cuda_offset(in[0].data, p->dtype);
    const int width = wide ? cuda_chunk(p->dtype) : 1;
    int parts = cuda_cross_entropy_parts_of(p, width);
    void *part = (char *)ctx->scratch + partial_bytes(p);

    TRY(cuda_launch(ctx, wide ? p->wide : p->kernel, tile_blocks(p, width, parts), LOSS_THREADS,
                    (size_t)(LOSS_THREADS * width) * p->scores,
                    CUDA_ARGS(&p->box, (void *)&in[0].data, &part, &parts)));
    return cuda_launch(ctx, p->merge, p->merge_blocks, LOSS_THREADS, 0,
                       CUDA_ARGS(&p->box, (void *)&in[0].data, (void *)&in[1].data, &out[0].data, &out[1].data,
                                 &out[2].data, (void *)&ctx->scratch, &part, &parts));
}

static Status cuda_cross_entropy_run_sum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Plan *p = state;

    if (!p->box.samples) {
        TRY_CUDA(ctx, runtime.zero(ctx->stream, out[0].data, tensor_bytes(&out[0])));
        TRY_CUDA(ctx, runtime.zero(ctx->stream, out[1].data, tensor_bytes(&out[1])));
        return ST_OK;
    }
    if (p->rows)
        TRY(cuda_launch(ctx, p->wide && !cuda_offset(in[0].data, p->dtype) ? p->wide : p->kernel, p->blocks,
                        LOSS_THREADS, 0,
                        CUDA_ARGS(&p->box, (void *)&in[0].data, (void *)&in[1].data, &out[0].data, &out[1].data,
                                  &out[2].data, &ctx->scratch)));
    else
        TRY(cuda_cross_entropy_run_columns(ctx, p, in, out));
    return cuda_loss_finish(ctx, p->finish, p->merge_blocks, out[0].data, out[1].data);
}

/* ---- backward ---- */

static Status cuda_cross_entropy_run_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Plan *p = state;
    const bool wide = p->even && !cuda_offset(in[1].data, p->dtype) && !cuda_offset(out->data, p->dtype);
    const int width = wide ? cuda_chunk(p->dtype) : 1;
    int parts = p->rows || !p->box.samples ? 1 : cuda_cross_entropy_parts_of(p, width);

    if (!p->box.samples)
        return ST_OK;
    return cuda_launch(ctx, wide ? p->wide : p->kernel, p->rows ? p->blocks : tile_blocks(p, width, parts),
                       LOSS_THREADS, 0,
                       CUDA_ARGS(&p->box, (void *)&in[0].data, (void *)&in[1].data, (void *)&in[2].data,
                                 (void *)&in[3].data, &out->data, &parts));
}

DEFINE_KERNEL(cuda_cross_entropy_sum, .op = &op_CrossEntropySum, .dtypes = DTYPES_FLOAT,
              .prepare = cuda_cross_entropy_prepare, .run = cuda_cross_entropy_run_sum, .release = free);
DEFINE_KERNEL(cuda_cross_entropy_grad, .op = &op_CrossEntropyGrad, .prepare = cuda_cross_entropy_prepare,
              .run = cuda_cross_entropy_run_grad, .release = free);
