/* Writing at indices: GatherGrad, GatherNDGrad, ScatterElements, ScatterND.  Rows go by lists of the positions that
 * name them (device/scatter.cu), so that nothing is added atomically and the bits are the same on every run. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/index.gen.h"
#include "graph/ops/scatter.gen.h"
#include "kernels/cuda/cuda_index.h"

/* ---- lists ---- */

enum { LIST_EACH = 8 }; /* indices that a thread reads before a block has more threads */

/* The kernels that go by lists. */
typedef struct {
    int64_t n, d;        /* indices, rows */
    size_t start, order; /* of the lists: bytes into the scratch */
    Tuples tuples;       /* GatherNDGrad, ScatterND */
    int64_t outer, inner;
    int wide, how;                       /* how: ScatterND's SCATTER_ */
    GpuKernel *lists, *vectors, *single; /* vectors: reads whole vectors of a row */
} State;

/* Lays out the lists behind `used` bytes of scratch. */
static Status lists_prepare(State *l, KernelCtx *ctx, int64_t n, int64_t d, size_t used)
{
    TRY(cuda_kernel(&l->lists, ctx, "index_lists", DT_NONE));
    l->n = n;
    l->d = d;
    l->start = cuda_aligned(used);
    l->order = l->start + cuda_aligned((size_t)(d + 1) * sizeof(uint32_t));
    need_scratch(ctx, l->order + (size_t)n * sizeof(uint32_t));
    return ST_OK;
}

static Status lists_run(const KernelCtx *ctx, State *l, const void *index, int wide)
{
    char *start = (char *)ctx->scratch + l->start, *order = (char *)ctx->scratch + l->order;
    unsigned blocks = cuda_blocks(l->d, LIST_ROWS, INT32_MAX), threads = LIST_ROWS;

    while (threads < 32 * LIST_MAKERS && (int64_t)threads * LIST_EACH < l->n)
        threads *= 2;
    return cuda_launch(ctx, l->lists, blocks, threads, 0, CUDA_ARGS(&index, &wide, &l->n, &l->d, &start, &order));
}

/* Positions and rows are counted in 31 bits. */
static bool countable(int64_t n, int64_t d) { return n < INT32_MAX && d < INT32_MAX; }

/* ---- GatherGrad, GatherNDGrad: sums of rows ---- */

static Status finish_sums(void **state, KernelCtx *ctx, State *s, int64_t n, int64_t d, DType t, size_t used)
{
    Status st;

    TRY_TO(fail, st, lists_prepare(s, ctx, n, d, used));
    TRY_TO(fail, st, cuda_kernel(&s->vectors, ctx, "row_sums_v", t));
    TRY_TO(fail, st, cuda_kernel(&s->single, ctx, "row_sums_1", t));
    *state = s;
    return ST_OK;
fail:
    free(s);
    return st;
}

static Status prepare_rows(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *dx = value(g, n->out[0]), *ix = in_value(g, n, 1);
    int axis = (int)node_int(n, "axis");
    State *s = calloc(1, sizeof *s);

    if (!s)
        return FAIL_NOMEM();
    s->outer = shape_count(dx->shape, 0, axis);
    s->inner = shape_count(dx->shape, axis + 1, dx->shape->rank);
    s->wide = ix->dtype == DT_INT64;
    return finish_sums(state, ctx, s, shape_numel(ix->shape), dx->shape->dim[axis], dx->dtype, 0);
}

static Status sum_rows(const KernelCtx *ctx, State *s, const Tensor *dy, Tensor *dx, const void *index, int wide)
{
    int64_t v = 16 / (int64_t)dtype_size(dx->dtype), d = s->d, n = s->n, columns;
    bool vectors = s->inner % v == 0 && unit_of((uintptr_t)dy->data | (uintptr_t)dx->data) == 16;
    char *start = (char *)ctx->scratch + s->start, *order = (char *)ctx->scratch + s->order;
    const void *from = dy->data;
    unsigned blocks;

    if (!tensor_numel(dx))
        return ST_OK;
    TRY(lists_run(ctx, s, index, wide));
    columns = 32 * (vectors ? v : 1);
    blocks = cuda_blocks(s->outer * ((d + LIST_WARPS - 1) / LIST_WARPS) * ((s->inner + columns - 1) / columns), 1,
                         INT32_MAX);
    return cuda_launch(ctx, vectors ? s->vectors : s->single, blocks, 32 * LIST_WARPS, 0,
                       CUDA_ARGS(&dx->data, &from, &start, &order, &s->outer, &n, &d, &s->inner));
}

static Status run_rows(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    State *s = state;

    return sum_rows(ctx, s, &in[0], &out[0], in[1].data, s->wide);
}

static bool fits_rows(const Graph *g, const Node *n)
{
    return countable(shape_numel(in_value(g, n, 1)->shape), node_int(n, "dim"));
}

static Status prepare_tuples(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *dx = value(g, n->out[0]);
    State *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    if ((st = tuples_prepare(&s->tuples, ctx, dx->shape, in_value(g, n, 1), (int)node_int(n, "batch_dims")))) {
        free(s);
        return st;
    }
    s->outer = 1;
    s->inner = s->tuples.inner;
    return finish_sums(state, ctx, s, s->tuples.box.n, s->tuples.box.rows, dx->dtype,
                       (size_t)s->tuples.box.n * sizeof(int64_t));
}

static Status run_tuples(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    State *s = state;

    TRY(tuples_run(ctx, &s->tuples, in[1].data, ctx->scratch));
    return sum_rows(ctx, s, &in[0], &out[0], ctx->scratch, true);
}

/* x is the tensor that the indices point into. */
static bool fits_tuples_of(const Graph *g, const Node *n, const Shape *x, int batch_dims)
{
    const Shape *ix = in_value(g, n, 1)->shape;

    return countable(shape_count(ix, 0, ix->rank - 1), shape_count(x, 0, batch_dims + (int)ix->dim[ix->rank - 1]));
}

static bool fits_tuples(const Graph *g, const Node *n)
{
    return fits_tuples_of(g, n, value(g, n->out[0])->shape, (int)node_int(n, "batch_dims"));
}

DEFINE_KERNEL(cuda_gather_grad, .op = &op_GatherGrad, .dtypes = DTYPES_FLOAT, .supports = fits_rows,
              .prepare = prepare_rows, .run = run_rows, .release = free);
DEFINE_KERNEL(cuda_gather_nd_grad, .op = &op_GatherNDGrad, .dtypes = DTYPES_FLOAT, .supports = fits_tuples,
              .prepare = prepare_tuples, .run = run_tuples, .release = free);

/* ---- ScatterND ---- */

/* A type that is no number is written, whatever the reduction. */
static int reduction(const Graph *g, const Node *n)
{
    static const char *const names[] = { [SCATTER_NONE] = "none",
                                         [SCATTER_ADD] = "add",
                                         [SCATTER_MUL] = "mul",
                                         [SCATTER_MAX] = "max",
                                         [SCATTER_MIN] = "min" };

    for (int i = 0; i < 5 && in_value(g, n, 0)->dtype != DT_BOOL; i++)
        if (!strcmp(node_string(n, "reduction"), names[i]))
            return i;
    return SCATTER_NONE;
}

static Status cuda_scatter_prepare_nd(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    State *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->how = reduction(g, n);
    TRY_TO(fail, st, tuples_prepare(&s->tuples, ctx, x->shape, in_value(g, n, 1), 0));
    TRY_TO(fail, st,
           lists_prepare(s, ctx, s->tuples.box.n, s->tuples.box.rows, (size_t)s->tuples.box.n * sizeof(int64_t)));
    TRY_TO(fail, st, cuda_kernel(&s->single, ctx, "scatter_rows", x->dtype));
    *state = s;
    return ST_OK;
fail:
    free(s);
    return st;
}

static Status cuda_scatter_run_nd(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    State *s = state;
    const void *x = in[0].data, *u = in[2].data;
    char *start = (char *)ctx->scratch + s->start, *order = (char *)ctx->scratch + s->order;
    int64_t n = tensor_numel(&out[0]);

    if (!n)
        return ST_OK;
    TRY(tuples_run(ctx, &s->tuples, in[1].data, ctx->scratch));
    TRY(lists_run(ctx, s, ctx->scratch, true));
    return cuda_launch(ctx, s->single, cuda_blocks(n, 256, 1 << 16), 256, 0,
                       CUDA_ARGS(&out[0].data, &x, &u, &start, &order, &s->d, &s->tuples.inner, &s->how));
}

static bool fits_nd(const Graph *g, const Node *n) { return fits_tuples_of(g, n, in_value(g, n, 0)->shape, 0); }

DEFINE_KERNEL(cuda_scatter_nd, .op = &op_ScatterND, .supports = fits_nd, .prepare = cuda_scatter_prepare_nd,
              .run = cuda_scatter_run_nd, .release = free);

/* ---- ScatterElements ---- */

/* LINE_SHARED: bytes of shared memory that every device has for a block. */
enum { LINE_SHARED = 48 << 10, LINE_LEAST = 16, LINE_WARPS_MOST = 8 };

typedef struct {
    ScatterBox box;
    int warps; /* of a block, each with a line in shared memory; 0: each element goes through all indices of its line */
    size_t shared;
    GpuKernel *kernel;
} ElementState;

/* Along the last axis, where there are indices enough and a line fits.  Floats of 16 bits are held as float32. */
static void choose_lines(ElementState *s, DType t)
{
    const size_t size = dtype_is_float(t) && dtype_size(t) < sizeof(float) ? sizeof(float) : dtype_size(t);
    const int64_t d = s->box.box.rank ? s->box.box.dim[0] : 0;

    if (s->box.axis != 0 || s->box.line < LINE_LEAST || d < 1 || d > LINE_SHARED / (int64_t)size)
        return;
    s->warps = (int)(LINE_SHARED / ((int64_t)size * d));
    s->warps = s->warps < LINE_WARPS_MOST ? s->warps : LINE_WARPS_MOST;
    s->shared = (size_t)s->warps * (size_t)d * size;
}

static Status prepare_elements(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0), *ix = in_value(g, n, 1);
    int axis = (int)node_int(n, "axis");
    ElementState *s = calloc(1, sizeof *s);
    int64_t is[MAX_RANK];
    Status st;

    if (!s)
        return FAIL_NOMEM();
    shape_strides(ix->shape, is);
    s->box = (ScatterBox){ .line = ix->shape->dim[axis],
                           .step = is[axis],
                           .axis = x->shape->rank - 1 - axis,
                           .wide = ix->dtype == DT_INT64,
                           .how = reduction(g, n),
                           .box.n = shape_numel(x->shape),
                           .box.rank = x->shape->rank };
    for (int k = 0; k < x->shape->rank; k++) {
        int i = x->shape->rank - 1 - k;

        s->box.box.dim[k] = x->shape->dim[i];
        s->box.box.from[k] = i == axis ? 0 : is[i];
        s->box.limit[k] = i == axis ? INT64_MAX : ix->shape->dim[i];
    }
    choose_lines(s, x->dtype);
    if ((st = cuda_kernel(&s->kernel, ctx, s->warps ? "scatter_lines" : "scatter_elements", x->dtype))) {
        free(s);
        return st;
    }
    *state = s;
    return ST_OK;
}

static Status cuda_scatter_run_elements(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    ElementState *s = state;
    const void *x = in[0].data, *u = in[2].data, *index = in[1].data;

    if (!s->box.box.n)
        return ST_OK;
    if (s->warps)
        return cuda_launch(ctx, s->kernel, cuda_blocks(s->box.box.n / s->box.box.dim[0], s->warps, 1 << 16),
                           32 * (unsigned)s->warps, s->shared, CUDA_ARGS(&s->box, &out[0].data, &x, &u, &index));
    return cuda_launch(ctx, s->kernel, cuda_blocks(s->box.box.n, 256, 1 << 16), 256, 0,
                       CUDA_ARGS(&s->box, &out[0].data, &x, &u, &index));
}

DEFINE_KERNEL(cuda_scatter_elements, .op = &op_ScatterElements, .prepare = prepare_elements,
              .run = cuda_scatter_run_elements, .release = free);
