/* Softmax and LogSoftmax along one axis: rows when it is the last, else columns (kernels/cuda/device/softmax.cu). */
#include <stdio.h>
#include <stdlib.h>

#include "graph/ops/softmax.gen.h"
#include "graph/tensor/layout.h"
#include "kernels/cuda/rows.h"

typedef struct {
    int64_t outer, n, inner;
    GpuKernel *lanes1, *lanes4, *block, *over, *columns, *wide;
    WholeRows whole;
} Plan;

/* The older meaning is lowered. */
static bool cuda_softmax_along_axis(const Graph *g, const Node *n)
{
    (void)g;
    return !node_int(n, "flatten");
}

static Status cuda_softmax_find(GpuKernel **out, const KernelCtx *ctx, const Node *n, const char *variant, DType t)
{
    char name[64];

    snprintf(name, sizeof name, "%s_%s", n->op == &op_Softmax ? "softmax" : "log_softmax", variant);
    return cuda_kernel(out, ctx, name, t);
}

static Status cuda_softmax_find_kernels(Plan *p, const KernelCtx *ctx, const Node *n, DType t)
{
    if (p->inner == 1) {
        TRY(cuda_softmax_find(&p->lanes1, ctx, n, "lanes1", t));
        TRY(cuda_softmax_find(&p->lanes4, ctx, n, "lanes4", t));
        TRY(cuda_softmax_find(&p->block, ctx, n, "block", t));
        TRY(cuda_whole_rows(&p->whole, ctx, n->op == &op_Softmax ? "softmax" : "log_softmax", t, p->outer, p->n));
        return cuda_softmax_find(&p->over, ctx, n, "long", t);
    }
    TRY(cuda_softmax_find(&p->columns, ctx, n, "columns", t));
    return cuda_softmax_find(&p->wide, ctx, n, "wide", t);
}

static Status cuda_softmax_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    const Shape stored = layout_stored(x->layout, x->shape);
    int at = layout_position(x->layout, stored.rank, (int)node_int(n, "axis"));
    Plan *p = calloc(1, sizeof *p);
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->outer = shape_count(&stored, 0, at);
    p->n = stored.dim[at];
    p->inner = shape_count(&stored, at + 1, stored.rank);
    if ((st = cuda_softmax_find_kernels(p, ctx, n, x->dtype))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

static Status run_rows(const KernelCtx *ctx, const Plan *p, const Tensor *in, Tensor *out)
{
    RowLaunch l = cuda_rows(in->data, in->dtype, p->outer, p->n);
    GpuKernel *k = l.lanes ? l.per_thread == 1 ? p->lanes1 : p->lanes4 : l.per_thread ? p->block : p->over;

    if (p->whole.kernel && !cuda_offset(in->data, in->dtype) && !cuda_offset(out->data, in->dtype))
        return cuda_launch(ctx, p->whole.kernel, p->whole.blocks, p->whole.threads, 0,
                           CUDA_ARGS((void *)&in->data, &out->data, (void *)&p->outer, (void *)&p->n));
    return cuda_launch(ctx, k, l.blocks, l.threads, 0,
                       CUDA_ARGS((void *)&in->data, &out->data, (void *)&p->outer, (void *)&p->n, &l.lanes));
}

/* Up to 8 threads along the axis share a column: enough to fill the device where there are few columns. */
static Status cuda_softmax_run_columns(const KernelCtx *ctx, const Plan *p, const Tensor *in, Tensor *out)
{
    const int v = cuda_chunk(in->dtype);
    const bool wide = p->inner % v == 0 && !cuda_offset(in->data, in->dtype) && !cuda_offset(out->data, in->dtype) &&
                      p->outer * p->inner >= 1 << 18;
    const int64_t width = wide ? v : 1, tiles = p->outer * ((p->inner / width + WARP_SIZE - 1) / WARP_SIZE);
    const unsigned along = p->n >= 8 ? 8 : p->n >= 4 ? 4 : 1;
    const unsigned grid[3] = { cuda_blocks(tiles, 1, MOST_BLOCKS), 1, 1 }, block[3] = { WARP_SIZE, along, 1 };
    const size_t shared =
        (size_t)along * WARP_SIZE * (size_t)width * 2 * (in->dtype == DT_FLOAT64 ? sizeof(double) : sizeof(float));

    TRY_CUDA(ctx,
             launch(ctx->stream, wide ? p->wide : p->columns, grid, block, shared,
                    CUDA_ARGS((void *)&in->data, &out->data, (void *)&p->outer, (void *)&p->n, (void *)&p->inner)));
    return ST_OK;
}

static Status cuda_softmax_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;

    if (!tensor_numel(in))
        return ST_OK;
    return p->inner == 1 ? run_rows(ctx, p, in, out) : cuda_softmax_run_columns(ctx, p, in, out);
}

#define COMMON                                                                                    \
    .dtypes = DTYPES_FLOAT, .layouts = kernel_channels_last, .supports = cuda_softmax_along_axis, \
    .prepare = cuda_softmax_prepare, .run = cuda_softmax_run, .release = free

DEFINE_KERNEL(cuda_softmax, .op = &op_Softmax, COMMON);
DEFINE_KERNEL(cuda_log_softmax, .op = &op_LogSoftmax, COMMON);
