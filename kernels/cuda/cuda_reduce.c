/* Reductions along any axes (kernels/cuda/device/reduce.cu): axes merged into the fewest, then runs or columns, in as
 * many parts as fill a device.  How many depends on shapes alone, so that the bits do not depend on the device. */
#include "graph/ops/reduce.gen.h"
#include "graph/ops/reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/axes.h"
#include "kernels/cuda/sum.h"

enum { MOST_CHUNKS = 1 << 30 };

typedef struct MatrixSum {
    ReductionPlan p;
    DType dtype;
    size_t acc; /* bytes of the accumulator */
    GpuKernel *runs, *column, *wide, *part;
} Plan;

static const struct {
    const OpDef *op;
    const char *name;
    Finish finish;
} reductions[] = {
    { &op_ReduceSum, "sum", FINISH_NONE },    { &op_ReduceSumSquare, "sum_square", FINISH_NONE },
    { &op_ReduceL1, "sum_abs", FINISH_NONE }, { &op_ReduceL2, "sum_square", FINISH_ROOT },
    { &op_ReduceProd, "prod", FINISH_NONE },  { &op_ReduceMax, "max", FINISH_NONE },
    { &op_ReduceMin, "min", FINISH_NONE },    { &op_ReduceLogSumExp, "log_sum_exp", FINISH_NONE },
};
enum { N_REDUCTIONS = sizeof reductions / sizeof *reductions };

static int reduction_of(const Node *n)
{
    int i = 0;

    while (i < N_REDUCTIONS && reductions[i].op != n->op)
        i++;
    return i;
}

/* ---- kernel ---- */

static size_t acc_bytes(const OpDef *op, DType t)
{
    size_t one = t == DT_FLOAT64 || dtype_is_int(t) ? 8 : 4;

    return op == &op_ReduceLogSumExp ? 2 * one : one;
}

static Status cuda_reduce_find(GpuKernel **out, const KernelCtx *ctx, const char *name, const char *variant, DType t)
{
    char base[64];

    snprintf(base, sizeof base, "reduce_%s_%s", name, variant);
    return cuda_kernel(out, ctx, base, t);
}

static Status cuda_reduce_find_kernels(Plan *p, const KernelCtx *ctx, const char *name)
{
    const bool summed = !strcmp(name, "sum") || !strcmp(name, "sum_square") || !strcmp(name, "sum_wide");

    if (p->p.r.parts > 1)
        TRY(cuda_reduce_find(&p->part, ctx, name, "parts", p->dtype));
    if (!p->p.columns)
        return cuda_reduce_find(&p->runs, ctx, name, "runs", p->dtype);
    if (summed && p->p.even && dtype_is_float(p->dtype))
        TRY(cuda_reduce_find(&p->wide, ctx, name, "wide", p->dtype));
    return cuda_reduce_find(&p->column, ctx, name, "columns", p->dtype);
}

/* The kernels called `name`; raises *scratch to the bytes that they need. */
static Status cuda_reduce_make_plan(Plan **out, size_t *scratch, const KernelCtx *ctx, const char *name, DType t,
                                    size_t acc, const Axes *axes, Finish finish)
{
    Plan *p = calloc(1, sizeof *p);
    size_t bytes;
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->dtype = t;
    p->acc = acc;
    reduction_plan(&p->p, axes, cuda_chunk(t), 1);
    p->p.r.finish = finish;
    bytes = p->p.r.parts > 1 ? (size_t)p->p.r.outputs * p->p.r.parts * p->acc : 0;
    *scratch = bytes > *scratch ? bytes : *scratch;
    if ((st = cuda_reduce_find_kernels(p, ctx, name))) {
        free(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

static Status cuda_reduce_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    const int which = reduction_of(n);
    const char *name = value(g, n->out[0])->dtype == x->dtype ? reductions[which].name : "sum_wide";
    unsigned mask;
    Axes axes;
    Plan *p;

    TRY(reduce_axes(&mask, g, n));
    axes = axes_merge(x, mask);
    TRY(cuda_reduce_make_plan(&p, &ctx->scratch_bytes, ctx, name, x->dtype, acc_bytes(n->op, x->dtype), &axes,
                              reductions[which].finish));
    *state = p;
    return ST_OK;
}

static Status run_runs(const KernelCtx *ctx, const Plan *p, void *scratch, const void *x, void *y)
{
    Reduction r = p->p.r;
    const int v = cuda_chunk(p->dtype), lanes = p->p.lanes;

    r.chunks = reduction_chunks(r.n, p->p.even ? cuda_offset(x, p->dtype) : v - 1, v);
    r.chunks = r.chunks ? r.chunks : 1;
    return cuda_launch(ctx, p->runs, reduction_run_blocks(&p->p), REDUCTION_THREADS, 0,
                       CUDA_ARGS((void *)&x, &y, &scratch, &r, (void *)&lanes));
}

/* Wide accesses where they are enough to go round. */
static Status cuda_reduce_run_columns(const KernelCtx *ctx, const Plan *p, void *scratch, const void *x, void *y)
{
    const int v = cuda_chunk(p->dtype);
    const bool wide = p->wide && !cuda_offset(x, p->dtype) && p->p.r.inner >= (int64_t)v * p->p.x;
    const int64_t width = wide ? v : 1;
    const unsigned grid[3] = { reduction_column_blocks(&p->p, width), 1, 1 };
    const unsigned block[3] = { p->p.x, p->p.y, 1 };
    const size_t shared = (size_t)(p->p.x * p->p.y) * (size_t)width * p->acc;

    TRY_CUDA(ctx, launch(ctx->stream, wide ? p->wide : p->column, grid, block, shared,
                         CUDA_ARGS((void *)&x, &y, &scratch, (void *)&p->p.r)));
    return ST_OK;
}

static Status run_plan(const KernelCtx *ctx, const Plan *p, void *scratch, const void *x, void *y)
{
    if (!p->p.r.outputs)
        return ST_OK;
    TRY((p->p.columns ? cuda_reduce_run_columns : run_runs)(ctx, p, scratch, x, y));
    return p->p.r.parts == 1 ? ST_OK : reduction_add_parts(ctx, &p->p, p->part, scratch, y);
}

static Status cuda_reduce_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return run_plan(ctx, state, ctx->scratch, in->data, out->data);
}

/* ---- sums for other kernels ---- */

Status matrix_sum_prepare(MatrixSum **out, size_t *scratch, const KernelCtx *ctx, DType from, DType to, int64_t rows,
                          int64_t columns, bool over_rows)
{
    Axes axes = { 0 };

    axes_add(&axes, over_rows, rows, columns);
    axes_add(&axes, !over_rows, columns, 1);
    return cuda_reduce_make_plan(out, scratch, ctx, to == from ? "sum" : "sum_wide", from,
                                 acc_bytes(&op_ReduceSum, from), &axes, FINISH_NONE);
}

Status matrix_sum_run(const MatrixSum *s, const KernelCtx *ctx, void *scratch, const void *x, void *y)
{
    return run_plan(ctx, s, scratch, x, y);
}

bool matrix_sum_fits(DType from, int64_t elements) { return elements / cuda_chunk(from) < MOST_CHUNKS; }

/* Index arithmetic on the device is in 32 bits within one output. */
static bool cuda_reduce_fits(const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    unsigned mask;

    if (x->dtype == DT_BOOL && !shape_numel(x->shape))
        return false; /* the least of no bools is 1, not 255 */
    if ((has_in(n, 1) && !value_const(g, n->in[1])) || !matrix_sum_fits(x->dtype, shape_numel(x->shape)))
        return false;
    return !reduce_axes(&mask, g, n) && axes_keep_order(x, value(g, n->out[0]), mask);
}

#define COMMON                                                                                     \
    .layouts = kernel_channels_last, .supports = cuda_reduce_fits, .prepare = cuda_reduce_prepare, \
    .run = cuda_reduce_run, .release = free
#define WHOLE (DTYPE_BIT(DT_INT32) | DTYPE_BIT(DT_INT64))
#define ORDERED (DTYPES_FLOAT | WHOLE | DTYPE_BIT(DT_INT8) | DTYPE_BIT(DT_UINT8) | DTYPES_BOOL)

DEFINE_KERNEL(cuda_reduce_sum, .op = &op_ReduceSum, .dtypes = DTYPES_FLOAT | WHOLE, COMMON);
DEFINE_KERNEL(cuda_reduce_sum_square, .op = &op_ReduceSumSquare, .dtypes = DTYPES_FLOAT, COMMON);
DEFINE_KERNEL(cuda_reduce_l1, .op = &op_ReduceL1, .dtypes = DTYPES_FLOAT, COMMON);
DEFINE_KERNEL(cuda_reduce_l2, .op = &op_ReduceL2, .dtypes = DTYPES_FLOAT, COMMON);
DEFINE_KERNEL(cuda_reduce_prod, .op = &op_ReduceProd, .dtypes = DTYPES_FLOAT | WHOLE, COMMON);
DEFINE_KERNEL(cuda_reduce_max, .op = &op_ReduceMax, .dtypes = ORDERED, COMMON);
DEFINE_KERNEL(cuda_reduce_min, .op = &op_ReduceMin, .dtypes = ORDERED, COMMON);
DEFINE_KERNEL(cuda_reduce_log_sum_exp, .op = &op_ReduceLogSumExp, .dtypes = DTYPES_FLOAT, COMMON);
