/* Pooling over windows and whole planes, and its gradients.  Planes are of one channel, or, with the channels last,
 * samples whose positions hold all channels: then units of neighbouring channels go together.
 *
 * Windows of 2 x 2 and 3 x 3 positions at stride 2 have kernels of their own (device/pool_stride2.cu), all others those
 * of device/pool.cu; way_of decides. */
#include <stdio.h>
#include <stdlib.h>

#include "graph/ops/pool.gen.h"
#include "graph/ops/pool.h"
#include "kernels/cuda/cuda_move.h"

/* The work of a thread: an element, a vector of channels, or the units of device/pool_stride2.cu. */
typedef enum { WAY_EACH, WAY_VECTOR, WAY_STRIDE2, WAYS } Way;

typedef struct {
    PoolBox box; /* n and trail in elements */
    Window win;
    int64_t trail, lead;
    int64_t vector; /* elements of the widest unit */
    bool indices, places, stride2;
    GpuKernel *kernel[WAYS], *where[WAYS];
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

/* One of them decides: all layouts of a single position are the same. */
static bool channels_last(const Value *x, const Value *y)
{
    return x->layout == LAYOUT_CHANNELS_LAST || y->layout == LAYOUT_CHANNELS_LAST;
}

/* 2 x 2 or 3 x 3 positions at stride 2 behind at most one of padding. */
static bool usual_window(const State *s)
{
    const Window *w = &s->win;

    for (int a = 1; a < WINDOW_AXES; a++)
        if (w->kernel[a] != w->kernel[1] || w->stride[a] != 2 || w->dilation[a] != 1 || w->pad[a] > 1)
            return false;
    return w->rank == 2 && (w->kernel[1] == 2 || w->kernel[1] == 3);
}

/* Do vectors divide the channels, where these are last?  Otherwise lines must be twice as long as the results'. */
static bool whole_units(const State *s)
{
    if (s->trail > 1)
        return s->trail % s->vector == 0;
    return s->win.in[2] % s->vector == 0 && s->win.out[2] * 2 == s->win.in[2];
}

/* Fills the state of node `n`, which pools x to y. */
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
    s->places = n->op == &op_MaxPoolPlaces || n->op == &op_MaxPoolPlacesGrad;
    s->indices = has_out(n, 1) && !s->places;
    s->stride2 = dtype_is_float(x->dtype) && !s->indices && usual_window(s) && whole_units(s);
}

static Way way_of(const State *s, uint64_t addresses)
{
    if (unit_of(addresses) != 16 || s->indices || s->vector == 1)
        return WAY_EACH;
    return s->stride2 ? WAY_STRIDE2 : s->trail % s->vector == 0 ? WAY_VECTOR : WAY_EACH;
}

/* The box for writing a tensor of `positions` per plane in units of v elements. */
static PoolBox cuda_pool_box_of(const State *s, const int64_t *positions, int64_t v)
{
    PoolBox p = s->box;

    p.trail = s->trail / v;
    p.by_trail = divisor_of(p.trail);
    p.n = s->lead * window_numel(positions) * p.trail;
    return p;
}

/* How many elements of an axis lie in different pairs, the first of which ends at element 1 - pad. */
static int64_t pairs_of(const Window *w, int axis) { return (w->in[axis] - 1 + w->pad[axis]) / 2 + 1; }

/* The box for writing results. */
static PoolBox forward_box(const State *s, Way way)
{
    PoolBox p = cuda_pool_box_of(s, s->win.out, way != WAY_EACH && s->trail > 1 ? s->vector : 1);

    if (way == WAY_STRIDE2 && s->trail == 1) {
        p.out[2] = (int)(s->win.in[2] / s->vector);
        p.by_out[2] = divisor_of(p.out[2]);
        p.n = s->lead * s->win.out[1] * p.out[2];
    }
    return p;
}

/* The box for writing the input's gradient. */
static PoolBox backward_box(const State *s, Way way)
{
    PoolBox p = cuda_pool_box_of(s, s->win.in, way != WAY_EACH && s->trail > 1 ? s->vector : 1);

    if (way == WAY_STRIDE2) {
        int64_t lines = pairs_of(&s->win, 1), units = s->trail > 1 ? pairs_of(&s->win, 2) : s->win.in[2] / s->vector;

        p.by_in[1] = divisor_of(lines);
        p.by_in[2] = divisor_of(units);
        p.n = s->lead * lines * units * p.trail;
    }
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
static bool cuda_pool_fits(const Graph *g, const Node *n)
{
    return (n->op == &op_MaxPoolPlaces || !has_out(n, 1) || !channels_last(in_value(g, n, 0), value(g, n->out[0]))) &&
           fits_between(n, in_value(g, n, 0)->shape, value(g, n->out[0])->shape);
}

/* The same for a gradient, from dy to dx. */
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

/* Both and, where there is one, "pool2_<stride2>_last3_<dtype>" or its like. */
static Status all_kernels(GpuKernel *kernel[WAYS], const KernelCtx *ctx, const State *s, const char *base,
                          const char *stride2, DType t)
{
    char name[64];

    TRY(both_kernels(kernel, ctx, base, t));
    if (!s->stride2)
        return ST_OK;
    snprintf(name, sizeof name, "pool2_%s_%s%d", stride2, s->trail > 1 ? "last" : "rows", (int)s->win.kernel[1]);
    return cuda_kernel(&kernel[WAY_STRIDE2], ctx, name, t);
}

static Status cuda_pool_launch(const KernelCtx *ctx, GpuKernel *kernel, const PoolBox *p, void *const *args)
{
    return p->n ? cuda_launch(ctx, kernel, cuda_blocks(p->n, POOL_THREADS, INT32_MAX), POOL_THREADS, 0, args) : ST_OK;
}

/* ---- windows ---- */

static Status cuda_pool_prepare_forward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    const bool max = n->op != &op_AveragePool;
    State *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    read_state(s, n, x, value(g, n->out[0]));
    if ((st = all_kernels(s->kernel, ctx, s, max ? "pool_max" : "pool_average", max ? "max" : "average", x->dtype))) {
        free(s);
        return st;
    }
    *state = s;
    return ST_OK;
}

static Status cuda_pool_run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const void *x = in[0].data, *places = s->places ? out[1].data : NULL, *index = s->indices ? out[1].data : NULL;
    const Way way = way_of(s, (uintptr_t)x | (uintptr_t)out[0].data | (uintptr_t)places);
    PoolBox p = forward_box(s, way);

    return cuda_pool_launch(ctx, s->kernel[way], &p, CUDA_ARGS(&p, &out[0].data, &x, &places, &index));
}

static bool narrow(const State *s) { return window_numel(s->win.kernel) <= POOL_PLACES; }

/* A result's place is a byte where that counts a window's positions, else four. */
static Status prepare_max_grad(KernelCtx *ctx, State *s, const Value *dy)
{
    const size_t need = (size_t)shape_numel(dy->shape) * (narrow(s) ? 1 : sizeof(int32_t));

    TRY(all_kernels(s->kernel, ctx, s, narrow(s) ? "pool_max_grad8" : "pool_max_grad32", "max_grad", dy->dtype));
    TRY(all_kernels(s->where, ctx, s, narrow(s) ? "pool_where8" : "pool_where32", "max", dy->dtype));
    ctx->scratch_bytes = need > ctx->scratch_bytes ? need : ctx->scratch_bytes;
    return ST_OK;
}

static Status cuda_pool_prepare_grad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *dy = in_value(g, n, 0);
    State *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    read_state(s, n, value(g, n->out[0]), dy);
    if (n->op == &op_MaxPoolGrad)
        st = prepare_max_grad(ctx, s, dy);
    else if (n->op == &op_MaxPoolPlacesGrad)
        st = all_kernels(s->kernel, ctx, s, "pool_max_grad8", "max_grad", dy->dtype);
    else
        st = all_kernels(s->kernel, ctx, s, "pool_average_grad", "average_grad", dy->dtype);
    if (st) {
        free(s);
        return st;
    }
    *state = s;
    return ST_OK;
}

static Status run_max_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const void *dy = in[0].data, *x = in[1].data, *none = NULL;
    const Way way = way_of(s, (uintptr_t)x | (uintptr_t)dy | (uintptr_t)out[0].data);
    PoolBox found = forward_box(s, way), p = backward_box(s, way);
    void *const *args = way == WAY_STRIDE2 ? CUDA_ARGS(&found, (void *)&none, (void *)&x, &ctx->scratch)
                                           : CUDA_ARGS(&found, &ctx->scratch, (void *)&x);

    TRY(cuda_pool_launch(ctx, s->where[way], &found, args));
    return cuda_pool_launch(ctx, s->kernel[way], &p, CUDA_ARGS(&p, &out[0].data, &dy, &ctx->scratch));
}

/* From dy alone, or dy and the places of maxima. */
static Status cuda_pool_run_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const void *dy = in[0].data, *places = s->places ? in[1].data : NULL;
    const Way way = way_of(s, (uintptr_t)dy | (uintptr_t)places | (uintptr_t)out[0].data);
    PoolBox p = backward_box(s, way);

    return cuda_pool_launch(ctx, s->kernel[way], &p, CUDA_ARGS(&p, &out[0].data, &dy, &places));
}

#define GRADIENT                                                                                                       \
    .dtypes = DTYPES_FLOAT, .layouts = kernel_channels_last, .supports = fits_grad, .prepare = cuda_pool_prepare_grad, \
    .release = free

DEFINE_KERNEL(cuda_max_pool, .op = &op_MaxPool, .dtypes = DTYPES_FLOAT | DTYPE_BIT(DT_INT8) | DTYPE_BIT(DT_UINT8),
              .layouts = kernel_channels_last, .supports = cuda_pool_fits, .prepare = cuda_pool_prepare_forward,
              .run = cuda_pool_run_forward, .release = free);
DEFINE_KERNEL(cuda_max_pool_grad, .op = &op_MaxPoolGrad, GRADIENT, .run = run_max_grad);
DEFINE_KERNEL(cuda_max_pool_places, .op = &op_MaxPoolPlaces, .dtypes = DTYPES_FLOAT, .layouts = kernel_channels_last,
              .supports = cuda_pool_fits, .prepare = cuda_pool_prepare_forward, .run = cuda_pool_run_forward,
              .release = free);
DEFINE_KERNEL(cuda_max_pool_places_grad, .op = &op_MaxPoolPlacesGrad, GRADIENT, .run = cuda_pool_run_grad);
DEFINE_KERNEL(cuda_average_pool, .op = &op_AveragePool, .dtypes = DTYPES_FLOAT, .layouts = kernel_channels_last,
              .supports = cuda_pool_fits, .prepare = cuda_pool_prepare_forward, .run = cuda_pool_run_forward,
              .release = free);
DEFINE_KERNEL(cuda_average_pool_grad, .op = &op_AveragePoolGrad, GRADIENT, .run = cuda_pool_run_grad);

/* ---- whole planes ---- */

static Status prepare_global(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    bool max = n->op == &op_GlobalMaxPool;
    State *s = calloc(1, sizeof *s);
    const char *base;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->lead = x->shape->dim[0] * (channels_last(x, x) ? 1 : x->shape->dim[1]);
    s->trail = channels_last(x, x) ? x->shape->dim[1] : 1;
    s->vector = 16 / (int64_t)dtype_size(x->dtype);
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
    const State *s = state;
    int64_t positions = shape_count(&in[0].shape, 2, in[0].shape.rank), run = s->trail == 1 ? positions : s->trail,
            trail = s->trail, v, n;
    const void *x = in[0].data;

    v = run % s->vector == 0 && unit_of((uintptr_t)x | (uintptr_t)out[0].data) == 16 ? s->vector : 1;
    if (!tensor_numel(&out[0]))
        return ST_OK;
    if (s->trail == 1) {
        n = s->lead;
        positions /= v;
        return cuda_launch(ctx, s->kernel[v > 1], cuda_blocks(n, POOL_THREADS / 32, INT32_MAX), POOL_THREADS, 0,
                           CUDA_ARGS(&out[0].data, &x, &n, &positions));
    }
    trail /= v;
    n = s->lead * trail;
    return cuda_launch(ctx, s->kernel[v > 1], cuda_blocks(n, POOL_THREADS, INT32_MAX), POOL_THREADS, 0,
                       CUDA_ARGS(&out[0].data, &x, &n, &positions, &trail));
}

#define GLOBAL                                                                                             \
    .dtypes = DTYPES_FLOAT, .layouts = kernel_channels_last, .prepare = prepare_global, .run = run_global, \
    .release = free

DEFINE_KERNEL(cuda_global_average_pool, .op = &op_GlobalAveragePool, GLOBAL);
DEFINE_KERNEL(cuda_global_max_pool, .op = &op_GlobalMaxPool, GLOBAL);
