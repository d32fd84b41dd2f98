/* Pooling over windows and whole planes, and its gradients.  Planes are of one channel, or, with the channels last,
 * samples whose positions hold all channels: then units of neighbouring channels go together. */
#include <stdio.h>
#include <stdlib.h>

#include "graph/ops/window.h"
#include "kernels/cuda/move.h"

enum { NARROW = 255 }; /* windows of at most so many positions have them in a byte */

typedef struct {
    PoolBox box; /* n and trail in elements */
    Window win;
    int64_t trail, lead;
    int64_t vector; /* elements of the widest unit */
    bool indices;
    GpuKernel *kernel[2], *where[2]; /* [a thread has a vector of channels] */
} State;

/* ---- geometry ---- */

static void read_axes(PoolBox *p, const Window *w)
{
    for (int a = 0; a < WINDOW_AXES; a++) {
        p->in[a] = (int)w->in[a];
        p->out[a] = (int)w->out[a];
        p->kernel[a] = (int)w->kernel[a];
        p->stride[a] = (int)w->stride[a];
        p->dilation[a] = (int)w->dilation[a];
        p->pad[a] = (int)w->pad[a];
        p->pad_end[a] = (int)w->pad_end[a];
        p->by_in[a] = divisor_of(w->in[a]);
        p->by_out[a] = divisor_of(w->out[a]);
        p->by_stride[a] = divisor_of(w->stride[a]);
    }
}

/* One of them tells: of a single position all layouts are the same. */
static bool channels_last(const Value *x, const Value *y)
{
    return x->layout == LAYOUT_CHANNELS_LAST || y->layout == LAYOUT_CHANNELS_LAST;
}

/* Of node `n` between an input x and a result y. */
static void read_state(State *s, const Node *n, const Value *x, const Value *y)
{
    int count;

    window_read(&s->win, n, x->shape, y->shape, node_ints(n, "kernel_shape", &count));
    read_axes(&s->box, &s->win);
    s->vector = dtype_is_float(x->dtype) ? 16 / (int64_t)dtype_size(x->dtype) : 1;
    s->trail = channels_last(x, y) ? x->shape->dim[1] : 1;
    s->lead = x->shape->dim[0] * (channels_last(x, y) ? 1 : x->shape->dim[1]);
    s->box.include_pad = node_attr(n, "count_include_pad") && node_int(n, "count_include_pad");
    s->box.column_major = node_attr(n, "storage_order") && node_int(n, "storage_order");
    s->indices = has_out(n, 1);
}

static int64_t vector_of(const State *s, uint64_t addresses)
{
    return s->trail % s->vector == 0 && unit_of(addresses) == 16 ? s->vector : 1;
}

/* The box for writing a tensor of `positions` per plane in units of v elements. */
static PoolBox box_of(const State *s, const int64_t *positions, int64_t v)
{
    PoolBox p = s->box;

    p.trail = s->trail / v;
    p.by_trail = divisor_of(p.trail);
    p.n = s->lead * window_numel(positions) * p.trail;
    return p;
}

/* Positions are counted in 31 bits, and so is what an axis reaches with its pads and dilation. */
static bool fits_between(const Node *n, const Shape *x, const Shape *y)
{
    int count;
    Window w;

    window_read(&w, n, x, y, node_ints(n, "kernel_shape", &count));
    for (int a = 0; a < WINDOW_AXES; a++) {
        int64_t reach = w.in[a] + w.pad[a] + w.pad_end[a];

        if (reach >= INT32_MAX / 4 || w.kernel[a] >= INT32_MAX / 4 / w.dilation[a] || w.stride[a] >= INT32_MAX / 4 ||
            w.out[a] > INT32_MAX / 4 / w.stride[a])
            return false;
    }
    return shape_numel(x) < INT32_MAX && shape_numel(y) < INT32_MAX && window_numel(w.kernel) < INT32_MAX;
}

/* Indices count by rows. */
static bool fits(const Graph *g, const Node *n)
{
    return (!has_out(n, 1) || !channels_last(in_value(g, n, 0), value(g, n->out[0]))) &&
           fits_between(n, in_value(g, n, 0)->shape, value(g, n->out[0])->shape);
}

/* Of a gradient: from dy to dx. */
static bool fits_grad(const Graph *g, const Node *n)
{
    return fits_between(n, value(g, n->out[0])->shape, in_value(g, n, 0)->shape);
}

/* "<base>_1_<dtype>" and "<base>_v_<dtype>". */
static Status both_kernels(GpuKernel *kernel[2], const KernelCtx *ctx, const char *base, DType t)
{
    char name[64];

    for (int v = 0; v < (dtype_is_float(t) ? 2 : 1); v++) {
        snprintf(name, sizeof name, "%s_%c", base, v ? 'v' : '1');
        TRY(cuda_kernel(&kernel[v], ctx, name, t));
    }
    return ST_OK;
}

static Status launch(const KernelCtx *ctx, GpuKernel *kernel, const PoolBox *p, void *const *args)
{
    return p->n ? cuda_launch(ctx, kernel, cuda_blocks(p->n, POOL_THREADS, INT32_MAX), POOL_THREADS, 0, args) : ST_OK;
}

/* ---- windows ---- */

static Status prepare_forward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    State *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    read_state(s, n, x, value(g, n->out[0]));
    if ((st = both_kernels(s->kernel, ctx, n->op == &op_MaxPool ? "pool_max" : "pool_average", x->dtype))) {
        free(s);
        return st;
    }
    *state = s;
    return ST_OK;
}

static Status run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const void *x = in[0].data, *index = s->indices ? out[1].data : NULL;
    int64_t v = s->indices ? 1 : vector_of(s, (uintptr_t)x | (uintptr_t)out[0].data);
    PoolBox p = box_of(s, s->win.out, v);

    return launch(ctx, s->kernel[v > 1], &p, CUDA_ARGS(&p, &out[0].data, &x, &index));
}

static bool narrow(const State *s) { return window_numel(s->win.kernel) <= NARROW; }

static Status prepare_grad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *dy = in_value(g, n, 0);
    bool max = n->op == &op_MaxPoolGrad;
    State *s = calloc(1, sizeof *s);
    size_t need;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    read_state(s, n, value(g, n->out[0]), dy);
    TRY_TO(fail, st,
           both_kernels(s->kernel, ctx,
                        !max        ? "pool_average_grad"
                        : narrow(s) ? "pool_max_grad8"
                                    : "pool_max_grad32",
                        dy->dtype));
    if (max) {
        TRY_TO(fail, st, both_kernels(s->where, ctx, narrow(s) ? "pool_where8" : "pool_where32", dy->dtype));
        need = (size_t)shape_numel(dy->shape) * (narrow(s) ? 1 : sizeof(int32_t));
        ctx->scratch_bytes = need > ctx->scratch_bytes ? need : ctx->scratch_bytes;
    }
    *state = s;
    return ST_OK;
fail:
    free(s);
    return st;
}

static Status run_max_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const void *dy = in[0].data, *x = in[1].data;
    int64_t v = vector_of(s, (uintptr_t)x | (uintptr_t)dy | (uintptr_t)out[0].data);
    PoolBox found = box_of(s, s->win.out, v), p = box_of(s, s->win.in, v);

    TRY(launch(ctx, s->where[v > 1], &found, CUDA_ARGS(&found, &ctx->scratch, &x)));
    return launch(ctx, s->kernel[v > 1], &p, CUDA_ARGS(&p, &out[0].data, &dy, &ctx->scratch));
}

static Status run_average_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const void *dy = in[0].data;
    int64_t v = vector_of(s, (uintptr_t)dy | (uintptr_t)out[0].data);
    PoolBox p = box_of(s, s->win.in, v);

    return launch(ctx, s->kernel[v > 1], &p, CUDA_ARGS(&p, &out[0].data, &dy));
}

#define GRADIENT                                                                                             \
    .dtypes = DTYPES_FLOAT, .layouts = kernel_channels_last, .supports = fits_grad, .prepare = prepare_grad, \
    .release = free

DEFINE_KERNEL(cuda_max_pool, .op = &op_MaxPool, .dtypes = DTYPES_FLOAT | DTYPE_BIT(DT_INT8) | DTYPE_BIT(DT_UINT8),
              .layouts = kernel_channels_last, .supports = fits, .prepare = prepare_forward, .run = run_forward,
              .release = free);
DEFINE_KERNEL(cuda_max_pool_grad, .op = &op_MaxPoolGrad, GRADIENT, .run = run_max_grad);
DEFINE_KERNEL(cuda_average_pool, .op = &op_AveragePool, .dtypes = DTYPES_FLOAT, .layouts = kernel_channels_last,
              .supports = fits, .prepare = prepare_forward, .run = run_forward, .release = free);
DEFINE_KERNEL(cuda_average_pool_grad, .op = &op_AveragePoolGrad, GRADIENT, .run = run_average_grad);

/* ---- whole planes ---- */

typedef struct {
    int64_t lead, positions, trail;
    size_t size;
    GpuKernel *kernel[2];
} Global;

static Status prepare_global(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    bool max = n->op == &op_GlobalMaxPool;
    Global *s = calloc(1, sizeof *s);
    const char *base;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->lead = x->shape->dim[0] * (channels_last(x, x) ? 1 : x->shape->dim[1]);
    s->positions = shape_count(x->shape, 2, x->shape->rank);
    s->trail = channels_last(x, x) ? x->shape->dim[1] : 1;
    s->size = dtype_size(x->dtype);
    base = s->trail == 1 ? (max ? "pool_global_max_first" : "pool_global_average_first")
                         : (max ? "pool_global_max_last" : "pool_global_average_last");
    if ((st = both_kernels(s->kernel, ctx, base, x->dtype))) {
        free(s);
        return st;
    }
    *state = s;
    return ST_OK;
}

static Status run_global(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Global *s = state;
    int64_t v = 16 / (int64_t)s->size, run = s->trail == 1 ? s->positions : s->trail, size = s->positions,
            trail = s->trail, n;
    const void *x = in[0].data;

    v = run % v == 0 && unit_of((uintptr_t)x | (uintptr_t)out[0].data) == 16 ? v : 1;
    if (!tensor_numel(&out[0]))
        return ST_OK;
    if (s->trail == 1) {
        n = s->lead;
        size /= v;
        return cuda_launch(ctx, s->kernel[v > 1], cuda_blocks(n, POOL_THREADS / 32, INT32_MAX), POOL_THREADS, 0,
                           CUDA_ARGS(&out[0].data, &x, &n, &size));
    }
    trail /= v;
    n = s->lead * trail;
    return cuda_launch(ctx, s->kernel[v > 1], cuda_blocks(n, POOL_THREADS, INT32_MAX), POOL_THREADS, 0,
                       CUDA_ARGS(&out[0].data, &x, &n, &size, &trail));
}

#define GLOBAL                                                                                             \
    .dtypes = DTYPES_FLOAT, .layouts = kernel_channels_last, .prepare = prepare_global, .run = run_global, \
    .release = free

DEFINE_KERNEL(cuda_global_average_pool, .op = &op_GlobalAveragePool, GLOBAL);
DEFINE_KERNEL(cuda_global_max_pool, .op = &op_GlobalMaxPool, GLOBAL);
