/* Gather, GatherElements and GatherND; OneHot, Trilu and ConstantOfShape, which write by position. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/select.gen.h"
#include "kernels/cuda/cuda_index.h"

/* ---- Gather: x [outer, d, inner], y [outer, indices, inner] ---- */

typedef struct {
    int64_t outer, d, indices, inner; /* inner: elements */
    size_t size, unit;
    int wide;
    GpuKernel *kernel[MOVE_WIDTHS];
    Tuples tuples; /* GatherND: then `indices` rows of all of x */
} State;

static Status cuda_gather_find_kernels(State *s, const KernelCtx *ctx)
{
    s->unit = unit_of((uint64_t)s->inner * s->size);
    return unit_kernels(s->kernel, ctx, s->outer * s->indices * s->inner > INT32_MAX ? "gather_wide" : "gather",
                        s->size, s->unit);
}

static Status cuda_gather_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    int axis = (int)node_int(n, "axis");
    State *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->outer = shape_count(x->shape, 0, axis);
    s->d = x->shape->dim[axis];
    s->inner = shape_count(x->shape, axis + 1, x->shape->rank);
    s->indices = shape_numel(in_value(g, n, 1)->shape);
    s->wide = in_value(g, n, 1)->dtype == DT_INT64;
    s->size = dtype_size(x->dtype);
    if ((st = cuda_gather_find_kernels(s, ctx))) {
        free(s);
        return st;
    }
    *state = s;
    return ST_OK;
}

static Status cuda_gather_gather(const KernelCtx *ctx, const State *s, void *y, const void *x, const void *index,
                                 int wide)
{
    size_t here = unit_of((uintptr_t)x | (uintptr_t)y), w = here < s->unit ? here : s->unit;
    int64_t inner = s->inner * (int64_t)(s->size) / (int64_t)w;
    GatherBox p = { .n = s->outer * s->indices * inner,
                    .d = s->d,
                    .inner = inner,
                    .indices = s->indices,
                    .by_inner = divisor_of(inner),
                    .by_indices = divisor_of(s->indices),
                    .wide = wide };

    if (!p.n)
        return ST_OK;
    return cuda_launch(ctx, s->kernel[log2_of(w)], move_blocks(p.n), MOVE_THREADS, 0, CUDA_ARGS(&p, &y, &x, &index));
}

static Status cuda_gather_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;

    return cuda_gather_gather(ctx, s, out[0].data, in[0].data, in[1].data, s->wide);
}

DEFINE_KERNEL(cuda_gather, .op = &op_Gather, .prepare = cuda_gather_prepare, .run = cuda_gather_run, .release = free);

/* ---- GatherND ---- */

Status tuples_prepare(Tuples *out, const KernelCtx *ctx, const Shape *x, const Value *index, int batch_dims)
{
    const Shape *ix = index->shape;
    int k = (int)ix->dim[ix->rank - 1];
    Tuples t = { .inner = shape_count(x, batch_dims + k, x->rank) };

    t.box.n = shape_count(ix, 0, ix->rank - 1);
    t.box.per_batch = shape_count(ix, batch_dims, ix->rank - 1);
    t.box.rows = shape_count(x, 0, batch_dims + k);
    t.box.k = k;
    t.box.wide = index->dtype == DT_INT64;
    for (int i = 0; i < k; i++)
        t.box.dim[i] = x->dim[batch_dims + i];
    TRY(cuda_kernel(&t.kernel, ctx, "tuple_rows", DT_NONE));
    *out = t;
    return ST_OK;
}

Status tuples_run(const KernelCtx *ctx, const Tuples *t, const void *index, void *rows)
{
    TupleBox box = t->box;

    if (!box.n)
        return ST_OK;
    return cuda_launch(ctx, t->kernel, cuda_blocks(box.n, 256, 1 << 16), 256, 0, CUDA_ARGS(&box, &index, &rows));
}

static Status cuda_gather_prepare_nd(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    State *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    TRY_TO(fail, st, tuples_prepare(&s->tuples, ctx, x->shape, in_value(g, n, 1), (int)node_int(n, "batch_dims")));
    s->outer = 1;
    s->d = s->tuples.box.rows;
    s->indices = s->tuples.box.n;
    s->inner = s->tuples.inner;
    s->size = dtype_size(x->dtype);
    TRY_TO(fail, st, cuda_gather_find_kernels(s, ctx));
    need_scratch(ctx, (size_t)s->indices * sizeof(int64_t));
    *state = s;
    return ST_OK;
fail:
    free(s);
    return st;
}

static Status cuda_gather_run_nd(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;

    TRY(tuples_run(ctx, &s->tuples, in[1].data, ctx->scratch));
    return cuda_gather_gather(ctx, s, out[0].data, in[0].data, ctx->scratch, true);
}

DEFINE_KERNEL(cuda_gather_nd, .op = &op_GatherND, .prepare = cuda_gather_prepare_nd, .run = cuda_gather_run_nd,
              .release = free);

/* ---- GatherElements ---- */

typedef struct {
    MoveBox box; /* of the indices; from: strides of x, 0 along the axis */
    int64_t d, step;
    int wide;
    GpuKernel *kernel;
} Elements;

static Status prepare_elements(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0), *ix = in_value(g, n, 1);
    int axis = (int)node_int(n, "axis");
    Elements *s = calloc(1, sizeof *s);
    GpuKernel *kernel[MOVE_WIDTHS];
    int64_t xs[MAX_RANK];
    Status st;

    if (!s)
        return FAIL_NOMEM();
    if ((st = unit_kernels(kernel, ctx, "gather_elements", dtype_size(x->dtype), dtype_size(x->dtype)))) {
        free(s);
        return st;
    }
    s->kernel = kernel[log2_of(dtype_size(x->dtype))];
    shape_strides(x->shape, xs);
    s->wide = ix->dtype == DT_INT64;
    s->d = x->shape->dim[axis];
    s->step = xs[axis];
    s->box.n = shape_numel(ix->shape);
    for (int i = ix->shape->rank - 1; i >= 0; i--) {
        s->box.dim[s->box.rank] = ix->shape->dim[i];
        s->box.from[s->box.rank++] = i == axis ? 0 : xs[i];
    }
    *state = s;
    return ST_OK;
}

static Status cuda_gather_run_elements(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Elements *s = state;
    const void *x = in[0].data, *index = in[1].data;

    if (!s->box.n)
        return ST_OK;
    return cuda_launch(ctx, s->kernel, move_blocks(s->box.n), MOVE_THREADS, 0,
                       CUDA_ARGS(&s->box, &out[0].data, &x, &index, &s->wide, &s->d, &s->step));
}

DEFINE_KERNEL(cuda_gather_elements, .op = &op_GatherElements, .prepare = prepare_elements,
              .run = cuda_gather_run_elements, .release = free);

/* ---- outputs written by position ---- */

/* OneHot: y [.., depth, inner]; Trilu: matrices [rows, cols]; ConstantOfShape: `bits` everywhere. */
typedef struct {
    int64_t n, rows, cols;
    uint64_t bits;
    int upper, dtype; /* dtype: of the indices */
    bool given;       /* the diagonal is input 1 */
    GpuKernel *kernel;
} Written;

static Status prepare_written(Written **out, const KernelCtx *ctx, const Graph *g, const Node *n, const char *kernel)
{
    const Value *y = value(g, n->out[0]);
    size_t size = dtype_size(y->dtype);
    Written *s = calloc(1, sizeof *s);
    GpuKernel *found[MOVE_WIDTHS];
    Status st;

    if (!s)
        return FAIL_NOMEM();
    if ((st = unit_kernels(found, ctx, kernel, size, size))) {
        free(s);
        return st;
    }
    s->kernel = found[log2_of(size)];
    s->n = shape_numel(y->shape);
    *out = s;
    return ST_OK;
}

static Status launch_written(const KernelCtx *ctx, const Written *s, void *const *args)
{
    return s->n ? cuda_launch(ctx, s->kernel, cuda_blocks(s->n, 256, 1 << 16), 256, 0, args) : ST_OK;
}

static Status prepare_one_hot(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *y = value(g, n->out[0])->shape;
    int axis = (int)node_int(n, "axis");
    Written *s;

    TRY(prepare_written(&s, ctx, g, n, "one_hot"));
    axis += axis < 0 ? y->rank : 0;
    s->rows = y->dim[axis];
    s->cols = shape_count(y, axis + 1, y->rank);
    s->dtype = in_value(g, n, 0)->dtype;
    *state = s;
    return ST_OK;
}

static Status run_one_hot(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Written *s = state;
    const void *index = in[0].data, *values = in[2].data;

    return launch_written(ctx, s, CUDA_ARGS(&out[0].data, &index, &s->dtype, &values, &s->n, &s->rows, &s->cols));
}

static Status prepare_trilu(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *y = value(g, n->out[0])->shape;
    Written *s;

    TRY(prepare_written(&s, ctx, g, n, "trilu"));
    s->rows = y->dim[y->rank - 2];
    s->cols = y->dim[y->rank - 1];
    s->upper = (int)node_int(n, "upper");
    s->given = has_in(n, 1);
    *state = s;
    return ST_OK;
}

static Status run_trilu(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Written *s = state;
    const void *x = in[0].data, *diagonal = s->given ? in[1].data : NULL;

    return launch_written(ctx, s, CUDA_ARGS(&out[0].data, &x, &s->n, &s->rows, &s->cols, &s->upper, &diagonal));
}

static Status prepare_constant(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Tensor *t = node_attr(n, "value")->tensor;
    Written *s;

    TRY(prepare_written(&s, ctx, g, n, "fill"));
    if (t)
        memcpy(&s->bits, t->data, dtype_size(t->dtype));
    *state = s;
    return ST_OK;
}

static Status cuda_gather_run_constant(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Written *s = state;

    (void)in;
    if (s->bits)
        return launch_written(ctx, s, CUDA_ARGS(&out[0].data, &s->n, &s->bits));
    if (s->n)
        TRY_CUDA(ctx, runtime.zero(ctx->stream, out[0].data, tensor_bytes(&out[0])));
    return ST_OK;
}

DEFINE_KERNEL(cuda_one_hot, .op = &op_OneHot, .prepare = prepare_one_hot, .run = run_one_hot, .release = free);
DEFINE_KERNEL(cuda_trilu, .op = &op_Trilu, .prepare = prepare_trilu, .run = run_trilu, .release = free);
DEFINE_KERNEL(cuda_constant_of_shape, .op = &op_ConstantOfShape, .prepare = prepare_constant,
              .run = cuda_gather_run_constant, .release = free);
