/* ArgMax, ArgMin, CumSum and TopK: lines along one axis, which are rows when it is the last, else columns. */
#include <stdlib.h>

#include "graph/ops/arg.gen.h"
#include "graph/ops/select.gen.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/device/line.h"
#include "kernels/cuda/rows.h"

static LineBox line_of(const Shape *x, int axis)
{
    return (LineBox){ shape_count(x, 0, axis), x->dim[axis], shape_count(x, axis + 1, x->rank) };
}

static int64_t lines_of(const LineBox *p) { return p->outer * p->inner; }

typedef struct {
    LineBox line;
    int smallest, last;     /* ArgMax, ArgMin; last: of equal ones */
    int exclusive, reverse; /* CumSum */
    int64_t parts;          /* of a column of CumSum, which `sums` adds up */
    GpuKernel *lanes, *block, *columns, *sums;
} Lines; /* lanes, block: how a row is shared; CumSum has a block for each */

/* ---- ArgMax, ArgMin ---- */

static Status prepare_arg(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    Lines *p = calloc(1, sizeof *p);
    Status st = ST_OK;

    if (!p)
        return FAIL_NOMEM();
    p->line = line_of(x->shape, (int)node_int(n, "axis"));
    p->smallest = n->op == &op_ArgMin;
    p->last = node_int(n, "select_last_index") != 0;
    TRY_TO(fail, st, cuda_kernel(&p->lanes, ctx, "arg_lanes", x->dtype));
    TRY_TO(fail, st, cuda_kernel(&p->block, ctx, "arg_block", x->dtype));
    TRY_TO(fail, st, cuda_kernel(&p->columns, ctx, "arg_columns", x->dtype));
    *state = p;
    return ST_OK;
fail:
    free(p);
    return st;
}

static Status run_arg(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Lines *p = state;
    const LineBox *l = &p->line;
    const unsigned grid[3] = { cuda_blocks(l->outer * ((l->inner + WARP_SIZE - 1) / WARP_SIZE), 1, MOST_BLOCKS), 1, 1 };
    const unsigned block[3] = { WARP_SIZE, l->n >= 4 * LINE_WARPS ? LINE_WARPS : 1, 1 };
    RowLaunch rows = cuda_rows(in->data, in->dtype, l->outer, l->n);
    void *const *args = CUDA_ARGS(&p->line, (void *)&in->data, &out->data, &p->smallest, &p->last, &rows.lanes);

    if (!tensor_numel(out))
        return ST_OK;
    if (l->inner == 1)
        return cuda_launch(ctx, rows.lanes ? p->lanes : p->block, rows.blocks, rows.threads, 0, args);
    TRY_CUDA(ctx, launch(ctx->stream, p->columns, grid, block, 0, args));
    return ST_OK;
}

DEFINE_KERNEL(cuda_arg_max, .op = &op_ArgMax, .dtypes = DTYPES_NUMERIC, .prepare = prepare_arg, .run = run_arg,
              .release = free);
DEFINE_KERNEL(cuda_arg_min, .op = &op_ArgMin, .dtypes = DTYPES_NUMERIC, .prepare = prepare_arg, .run = run_arg,
              .release = free);

/* ---- CumSum ---- */

/* Columns are cut into parts while there are fewer than CUT_THREADS threads and a part has CUT_LEAST elements. */
enum { CUT_THREADS = 1 << 18, CUT_LEAST = 64, CUT_MOST = 256 };

static int64_t cuda_arg_parts_of(const LineBox *p)
{
    const int64_t most = lines_of(p) > 0 ? CUT_THREADS / lines_of(p) : 1, long_enough = p->n / CUT_LEAST;
    const int64_t parts = most < long_enough ? most : long_enough;

    return p->inner == 1 || parts < 2 ? 1 : parts < CUT_MOST ? parts : CUT_MOST;
}

static bool axis_known(const Graph *g, const Node *n) { return value_const(g, n->in[1]) != NULL; }

static Status prepare_cumsum(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    Lines *p;
    Status st = ST_OK;
    int axis;

    TRY(shape_axis(&axis, tensor_int(value_const(g, n->in[1]), 0), x->shape->rank, node_text(g, n)));
    if (!(p = calloc(1, sizeof *p)))
        return FAIL_NOMEM();
    p->line = line_of(x->shape, axis);
    p->exclusive = node_int(n, "exclusive") != 0;
    p->reverse = node_int(n, "reverse") != 0;
    TRY_TO(fail, st, cuda_kernel(&p->block, ctx, "cumsum_rows", x->dtype));
    TRY_TO(fail, st, cuda_kernel(&p->sums, ctx, "cumsum_parts", x->dtype));
    TRY_TO(fail, st, cuda_kernel(&p->columns, ctx, "cumsum_columns", x->dtype));
    p->parts = cuda_arg_parts_of(&p->line);
    if (p->parts > 1)
        need_scratch(ctx, (size_t)(lines_of(&p->line) * p->parts) * sizeof(int64_t)); /* or doubles */
    *state = p;
    return ST_OK;
fail:
    free(p);
    return st;
}

static Status cumsum_columns(KernelCtx *ctx, Lines *p, const Tensor *in, Tensor *out)
{
    const unsigned blocks = cuda_blocks(lines_of(&p->line) * p->parts, LINE_THREADS, MOST_BLOCKS);

    if (p->parts > 1)
        TRY(cuda_launch(ctx, p->sums, blocks, LINE_THREADS, 0,
                        CUDA_ARGS(&p->line, (void *)&in->data, &ctx->scratch, &p->parts, &p->reverse)));
    return cuda_launch(
        ctx, p->columns, blocks, LINE_THREADS, 0,
        CUDA_ARGS(&p->line, (void *)&in->data, &out->data, &ctx->scratch, &p->parts, &p->exclusive, &p->reverse));
}

static Status run_cumsum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Lines *p = state;
    const int64_t chunks = p->line.n / cuda_chunk(in->dtype) + 1;
    unsigned threads = WARP_SIZE;

    if (!tensor_numel(out))
        return ST_OK;
    if (p->line.inner != 1)
        return cumsum_columns(ctx, p, in, out);
    while (threads < LINE_THREADS && threads < chunks)
        threads *= 2;
    return cuda_launch(ctx, p->block, cuda_blocks(p->line.outer, 1, MOST_BLOCKS), threads, 0,
                       CUDA_ARGS(&p->line, (void *)&in->data, &out->data, &p->exclusive, &p->reverse));
}

DEFINE_KERNEL(cuda_cumsum, .op = &op_CumSum, .dtypes = DTYPES_NUMERIC, .supports = axis_known,
              .prepare = prepare_cumsum, .run = run_cumsum, .release = free);

/* ---- TopK ---- */

enum {
    TOP_BLOCKS = 1 << 10,
    TOP_PLACE = 12,
    TOP_SCRATCH = 1 << 26,
    TOP_MOST = 1 << 30
}; /* TOP_PLACE: bytes of a key and an index */

typedef struct {
    TopBox box;
    unsigned blocks;
    size_t shared;
    GpuKernel *kernel;
} TopK;

static bool few_enough(const Graph *g, const Node *n)
{
    return in_value(g, n, 0)->shape->dim[node_int(n, "axis")] <= TOP_MOST;
}

static Status prepare_top_k(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    const int axis = (int)node_int(n, "axis");
    TopK *p = calloc(1, sizeof *p);
    size_t each;
    Status st;

    if (!p)
        return FAIL_NOMEM();
    p->box = (TopBox){ line_of(x->shape, axis), value(g, n->out[0])->shape->dim[axis], 2, !node_int(n, "largest") };
    while (p->box.room < p->box.line.n)
        p->box.room *= 2;
    each = (size_t)p->box.room * TOP_PLACE;
    p->blocks = cuda_blocks(lines_of(&p->box.line), 1, TOP_BLOCKS);
    if (p->box.room > TOP_SHARED) {
        p->blocks = cuda_blocks(p->blocks, 1, TOP_SCRATCH / (int64_t)each + 1);
        need_scratch(ctx, p->blocks * each);
    } else {
        p->shared = each;
    }
    if ((st = cuda_kernel(&p->kernel, ctx, "top_k", x->dtype))) {
        free(p);
        return st;
    }
    *state = p;
    return ST_OK;
}

static Status run_top_k(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    TopK *p = state;

    if (!tensor_numel(out))
        return ST_OK;
    return cuda_launch(ctx, p->kernel, p->blocks, LINE_THREADS, p->shared,
                       CUDA_ARGS(&p->box, (void *)&in->data, &out[0].data, &out[1].data, &ctx->scratch));
}

DEFINE_KERNEL(cuda_top_k, .op = &op_TopK, .dtypes = DTYPES_NUMERIC, .supports = few_enough, .prepare = prepare_top_k,
              .run = run_top_k, .release = free);
