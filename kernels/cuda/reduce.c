/* Reductions along any axes (kernels/cuda/device/reduce.cu): axes merged into the fewest, then runs or columns, in as many
 * parts as fill a device.  How many depends on shapes alone, so that the bits do not depend on the device. */
#include "graph/layout.h"
#include "graph/ops/reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/device/reduction.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sum.h"

enum { THREADS = 256, TEAMS = 2048, FLIGHT = 4, MOST_CHUNKS = 1 << 30 };

typedef struct MatrixSum {
    Reduction r;
    bool columns;                           /* the last axis is kept */
    bool even;                              /* runs begin on 16-byte boundaries if the tensor does */
    DType dtype;
    int lanes;
    size_t acc;                             /* bytes of what is accumulated */
    unsigned x, y;                          /* columns: the block */
    GpuKernel *runs, *column, *wide, *part;
} Plan;

static const struct { const OpDef *op; const char *name; Finish finish; } reductions[] = {
    { &op_ReduceSum, "sum", FINISH_NONE },        { &op_ReduceSumSquare, "sum_square", FINISH_NONE }, { &op_ReduceL1, "sum_abs", FINISH_NONE },
    { &op_ReduceL2, "sum_square", FINISH_ROOT },  { &op_ReduceProd, "prod", FINISH_NONE },            { &op_ReduceMax, "max", FINISH_NONE },
    { &op_ReduceMin, "min", FINISH_NONE },        { &op_ReduceLogSumExp, "log_sum_exp", FINISH_NONE },
};
enum { N_REDUCTIONS = sizeof reductions / sizeof *reductions };

static int reduction_of(const Node *n)
{
    int i = 0;

    while (i < N_REDUCTIONS && reductions[i].op != n->op)
        i++;
    return i;
}

/* ---- axes ---- */

typedef struct { int n; bool reduced[MAX_RANK]; int64_t dim[MAX_RANK], stride[MAX_RANK]; } Axes;

/* The next axis as they stand in memory: none for a dimension of 1, and neighbours of one kind are one. */
static void add_axis(Axes *a, bool reduced, int64_t dim, int64_t stride)
{
    bool joins = a->n && a->reduced[a->n - 1] == reduced;

    if (dim == 1)
        return;
    a->n += !joins;
    a->reduced[a->n - 1] = reduced;
    a->dim[a->n - 1] = joins ? a->dim[a->n - 1] * dim : dim;
    a->stride[a->n - 1] = stride;
}

static Axes merge_axes(const Value *x, unsigned mask)
{
    Axes a = { 0 };
    int64_t stride[MAX_RANK];

    layout_strides(x->layout, &x->shape, stride);
    for (int k = 0; k < x->shape.rank; k++) {
        int i = layout_axis(x->layout, x->shape.rank, k);

        add_axis(&a, mask >> i & 1, x->shape.dim[i], stride[i]);
    }
    return a;
}

/* Do the axes that are kept stand in the result in the order in which they stand in x? */
static bool keeps_order(const Value *x, const Value *y, unsigned mask)
{
    int last = -1;

    for (int k = 0; k < x->shape.rank; k++) {
        int axis = layout_axis(x->layout, x->shape.rank, k), in_y = axis, at;

        if (mask >> axis & 1 || x->shape.dim[axis] == 1)
            continue;
        for (int i = 0; y->shape.rank < x->shape.rank && i < axis; i++)
            in_y -= mask >> i & 1;
        at = layout_position(y->layout, y->shape.rank, in_y);
        if (at < last)
            return false;
        last = at;
    }
    return true;
}

/* The axes of one kind before the last axis; their number of elements. */
static int64_t walk_axes(Walk *w, const Axes *a, bool reduced, int n)
{
    int64_t count = 1;

    w->n = 0;
    for (int i = 0; i < n; i++)
        if (a->reduced[i] == reduced) {
            w->dim[w->n] = (unsigned)a->dim[i];
            w->stride[w->n++] = a->stride[i];
            count *= a->dim[i];
        }
    return count;
}

static unsigned clamp_parts(int64_t wanted, int64_t possible)
{
    int64_t parts = wanted < possible ? wanted : possible;

    return (unsigned)(parts < 1 ? 1 : parts);
}

/* Chunks of a run of n that begins `offset` elements behind a boundary. */
static unsigned run_chunks(int64_t n, int offset, int v)
{
    return (unsigned)((n + offset + v - 1) / v);
}

static void plan_runs(Plan *p, const Axes *a)
{
    Reduction *r = &p->r;
    const int v = cuda_chunk(p->dtype);
    int64_t work;

    r->n = a->dim[a->n - 1];
    r->runs = walk_axes(&r->reduced, a, true, a->n - 1);
    r->outputs = walk_axes(&r->kept, a, false, a->n - 1);
    p->even = r->n % v == 0;
    for (int i = 0; i < a->n - 1; i++)
        p->even = p->even && a->stride[i] % v == 0;
    work = r->runs * run_chunks(r->n, p->even ? 0 : v - 1, v);
    for (p->lanes = 1; p->lanes < work && p->lanes < WARP_SIZE;)
        p->lanes *= 2;
    r->parts = clamp_parts(TEAMS / (r->outputs + 1), work / (2 * FLIGHT * WARP_SIZE));
}

static void plan_columns(Plan *p, const Axes *a)
{
    Reduction *r = &p->r;
    bool scalar = a->n == 0;
    int64_t tiles;

    r->inner = scalar ? 1 : a->dim[a->n - 1];
    r->n = walk_axes(&r->reduced, a, true, a->n - 1);
    r->outputs = walk_axes(&r->kept, a, false, a->n - 1) * r->inner;
    p->columns = true;
    p->even = r->inner % cuda_chunk(p->dtype) == 0;
    for (p->x = 1; p->x < r->inner && p->x < WARP_SIZE;)
        p->x *= 2;
    for (p->y = THREADS / p->x; p->y > 1 && p->y >= 2 * r->n;)
        p->y /= 2;
    tiles = r->inner ? r->outputs / r->inner * ((r->inner + p->x - 1) / p->x) : 0;
    r->parts = clamp_parts(TEAMS / 2 / (tiles + 1), r->n / (2 * FLIGHT * (int64_t)p->y));
}

/* ---- kernel ---- */

static size_t acc_bytes(const OpDef *op, DType t)
{
    size_t one = t == DT_FLOAT64 || dtype_is_int(t) ? 8 : 4;

    return op == &op_ReduceLogSumExp ? 2 * one : one;
}

static Status find(GpuKernel **out, const KernelCtx *ctx, const char *name, const char *variant, DType t)
{
    char base[64];

    snprintf(base, sizeof base, "reduce_%s_%s", name, variant);
    return cuda_kernel(out, ctx, base, t);
}

static Status find_kernels(Plan *p, const KernelCtx *ctx, const char *name)
{
    const bool summed = !strcmp(name, "sum") || !strcmp(name, "sum_square") || !strcmp(name, "sum_wide");

    if (p->r.parts > 1)
        TRY(find(&p->part, ctx, name, "parts", p->dtype));
    if (!p->columns)
        return find(&p->runs, ctx, name, "runs", p->dtype);
    if (summed && p->even && dtype_is_float(p->dtype))
        TRY(find(&p->wide, ctx, name, "wide", p->dtype));
    return find(&p->column, ctx, name, "columns", p->dtype);
}

/* The kernels called `name`; raises *scratch to what they need. */
static Status make_plan(Plan **out, size_t *scratch, const KernelCtx *ctx, const char *name, DType t, size_t acc, const Axes *axes, Finish finish)
{
    Plan *p = calloc(1, sizeof *p);
    size_t bytes;
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->dtype = t;
    p->acc = acc;
    p->r.finish = finish;
    (axes->n && axes->reduced[axes->n - 1] ? plan_runs : plan_columns)(p, axes);
    bytes = p->r.parts > 1 ? (size_t)p->r.outputs * p->r.parts * p->acc : 0;
    *scratch = bytes > *scratch ? bytes : *scratch;
    if ((st = find_kernels(p, ctx, name))) {
        free(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    const int which = reduction_of(n);
    const char *name = value(g, n->out[0])->dtype == x->dtype ? reductions[which].name : "sum_wide";
    unsigned mask;
    Axes axes;
    Plan *p;

    TRY(reduce_axes(&mask, g, n));
    axes = merge_axes(x, mask);
    TRY(make_plan(&p, &ctx->scratch_bytes, ctx, name, x->dtype, acc_bytes(n->op, x->dtype), &axes, reductions[which].finish));
    *state = p;
    return ST_OK;
}

static Status run_runs(const KernelCtx *ctx, const Plan *p, void *scratch, const void *x, void *y)
{
    Reduction r = p->r;
    const int v = cuda_chunk(p->dtype), lanes = p->lanes;

    r.chunks = run_chunks(r.n, p->even ? cuda_offset(x, p->dtype) : v - 1, v);
    r.chunks = r.chunks ? r.chunks : 1;
    return cuda_launch(ctx, p->runs, cuda_blocks(r.outputs * r.parts, THREADS / lanes, MOST_BLOCKS), THREADS, 0,
                       CUDA_ARGS((void *)&x, &y, &scratch, &r, (void *)&lanes));
}

/* Wide accesses where they are enough to go round. */
static Status run_columns(const KernelCtx *ctx, const Plan *p, void *scratch, const void *x, void *y)
{
    const int v = cuda_chunk(p->dtype);
    const bool wide = p->wide && !cuda_offset(x, p->dtype) && p->r.inner >= (int64_t)v * p->x;
    const int64_t width = wide ? v : 1, tiles = (p->r.inner / width + p->x - 1) / p->x;
    const unsigned grid[3] = { cuda_blocks(p->r.outputs / p->r.inner * tiles * p->r.parts, 1, MOST_BLOCKS), 1, 1 };
    const unsigned block[3] = { p->x, p->y, 1 };
    const size_t shared = (size_t)(p->x * p->y) * (size_t)width * p->acc;

    TRY_CUDA(ctx, launch(ctx->stream, wide ? p->wide : p->column, grid, block, shared,
                         CUDA_ARGS((void *)&x, &y, &scratch, (void *)&p->r)));
    return ST_OK;
}

static Status run_plan(const KernelCtx *ctx, const Plan *p, void *scratch, const void *x, void *y)
{
    const unsigned parts = p->r.parts;

    if (!p->r.outputs)
        return ST_OK;
    TRY((p->columns ? run_columns : run_runs)(ctx, p, scratch, x, y));
    if (parts == 1)
        return ST_OK;
    return cuda_launch(ctx, p->part, cuda_blocks(p->r.outputs, 1, MOST_BLOCKS),
                       parts < THREADS ? (parts + WARP_SIZE - 1) / WARP_SIZE * WARP_SIZE : THREADS, 0, CUDA_ARGS(&scratch, &y, (void *)&p->r));
}

static Status run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return run_plan(ctx, state, ctx->scratch, in->data, out->data);
}

/* ---- sums for other kernels ---- */

Status matrix_sum_prepare(MatrixSum **out, size_t *scratch, const KernelCtx *ctx, DType from, DType to, int64_t rows, int64_t columns, bool over_rows)
{
    Axes axes = { 0 };

    add_axis(&axes, over_rows, rows, columns);
    add_axis(&axes, !over_rows, columns, 1);
    return make_plan(out, scratch, ctx, to == from ? "sum" : "sum_wide", from, acc_bytes(&op_ReduceSum, from), &axes, FINISH_NONE);
}

Status matrix_sum_run(const MatrixSum *s, const KernelCtx *ctx, void *scratch, const void *x, void *y)
{
    return run_plan(ctx, s, scratch, x, y);
}

bool matrix_sum_fits(DType from, int64_t elements) { return elements / cuda_chunk(from) < MOST_CHUNKS; }

/* Index arithmetic on the device is in 32 bits within one output. */
static bool fits(const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    unsigned mask;

    if (x->dtype == DT_BOOL && !shape_numel(&x->shape))
        return false;           /* the least of no bools is 1, not 255 */
    if ((has_in(n, 1) && !value_const(g, n->in[1])) || !matrix_sum_fits(x->dtype, shape_numel(&x->shape)))
        return false;
    return !reduce_axes(&mask, g, n) && keeps_order(x, value(g, n->out[0]), mask);
}

#define COMMON .channels_last = true, .supports = fits, .prepare = prepare, .run = run, .release = free
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
