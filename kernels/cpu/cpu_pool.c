/* Pooling, plane by plane: for each kernel position, rows of input and output are paired, so that the inner loops run
 * along memory.  Planes are divided among the team. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/pool.gen.h"
#include "graph/ops/window.h"
#include "kernels/backend.h"
#include "kernels/cpu/team.h"
#include "kernels/typed.h"

typedef struct {
    Window win;
    int64_t planes, in_size, out_size;
    int team;
    double *share; /* [out_size] 1 / elements that an average covers; NULL for maxima */
} Plan;

static void cpu_pool_release(void *state)
{
    Plan *p = state;

    if (p)
        free(p->share);
    free(p);
}

/* ---- shares of an average ---- */

/* Positions of the window at output o along one axis that count: inside the input, or its explicit padding as well. */
static int64_t cpu_pool_counted(const Window *w, int axis, int64_t o, bool include_pad)
{
    int64_t start = o * w->stride[axis] - w->pad[axis], end = w->in[axis] + (include_pad ? w->pad_end[axis] : 0),
            count = 0;

    for (int64_t k = 0, at = start; k < w->kernel[axis]; k++, at += w->dilation[axis])
        count += at < end && (include_pad || at >= 0);
    return count;
}

static Status make_shares(Plan *p, const Graph *g, bool include_pad)
{
    const Window *w = &p->win;
    double *share = kernel_table(g, (size_t)p->out_size + 1, sizeof *share);

    if (!share)
        return FAIL_NOMEM();
    p->share = share;
    for (int64_t i = 0; i < w->out[0]; i++)
        for (int64_t j = 0; j < w->out[1]; j++) {
            int64_t outer = cpu_pool_counted(w, 0, i, include_pad) * cpu_pool_counted(w, 1, j, include_pad);

            for (int64_t k = 0; k < w->out[2]; k++) {
                int64_t count = outer * cpu_pool_counted(w, 2, k, include_pad);

                *share++ = count ? 1 / (double)count : 0;
            }
        }
    return ST_OK;
}

/* ---- preparation ---- */

static Status cpu_pool_make_plan(void **state, KernelCtx *ctx, const Graph *g, const Node *n, const Shape *x,
                                 const Shape *y)
{
    Plan *p = calloc(1, sizeof *p);
    int count;
    Status st = ST_OK;

    if (!p)
        return FAIL_NOMEM();
    window_read(&p->win, n, x, y, node_ints(n, "kernel_shape", &count));
    p->planes = x->dim[0] * x->dim[1];
    p->in_size = window_numel(p->win.in);
    p->out_size = window_numel(p->win.out);
    p->team = team_size(ctx, shape_numel(x));
    if (node_attr(n, "count_include_pad"))
        st = make_shares(p, g, node_int(n, "count_include_pad"));
    if (st)
        cpu_pool_release(p);
    else
        *state = p;
    return st;
}

static Status cpu_pool_prepare_forward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return cpu_pool_make_plan(state, ctx, g, n, in_value(g, n, 0)->shape, value(g, n->out[0])->shape);
}

static Status cpu_pool_prepare_backward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return cpu_pool_make_plan(state, ctx, g, n, value(g, n->out[0])->shape, in_value(g, n, 0)->shape);
}

/* MaxPoolGrad keeps the largest element and its place for every output of a plane. */
static size_t plane_scratch(const Plan *p)
{
    return ((size_t)p->out_size * (sizeof(double) + sizeof(int64_t)) + 63) / 64 * 64;
}

static Status prepare_max_grad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    size_t bytes;

    TRY(cpu_pool_prepare_backward(state, ctx, g, n));
    bytes = plane_scratch(*state) * (size_t)((Plan *)*state)->team;
    if (bytes > ctx->scratch_bytes)
        ctx->scratch_bytes = bytes;
    return ST_OK;
}

/* ---- the loops ---- */

/* Visits for each kernel position and output row the offsets x, y of `count` pairs, x's with stride s. */
typedef struct {
    int64_t k[3], lo[3], hi[3], i, j, x, y, count, x_step, y_step;
} Taps;

static Taps taps_start(const Window *w)
{
    return (Taps){ .k = { 0, 0, -1 }, .x_step = w->stride[1] * w->in[2], .y_step = w->out[2] };
}

/* The next kernel position that meets an output row; false after the last. */
static bool next_position(Taps *t, const Window *w)
{
    do {
        for (int a = 2; ++t->k[a] == w->kernel[a]; a--) {
            if (a == 0)
                return false;
            t->k[a] = 0;
        }
        for (int a = 0; a < 3; a++)
            window_range(w, a, t->k[a], &t->lo[a], &t->hi[a]);
    } while (t->lo[0] >= t->hi[0] || t->lo[1] >= t->hi[1]);
    t->i = t->lo[0];
    t->count = t->hi[2] - t->lo[2];
    return true;
}

/* The first row of the next plane of output rows. */
static bool next_plane(Taps *t, const Window *w)
{
    if (++t->i >= t->hi[0] && !next_position(t, w))
        return false;
    t->j = t->lo[1];
    t->x = t->i * w->stride[0] + t->k[0] * w->dilation[0] - w->pad[0];
    t->x = t->x * w->in[1] + t->j * w->stride[1] + t->k[1] * w->dilation[1] - w->pad[1];
    t->x = t->x * w->in[2] + t->lo[2] * w->stride[2] + t->k[2] * w->dilation[2] - w->pad[2];
    t->y = (t->i * w->out[1] + t->j) * w->out[2] + t->lo[2];
    return true;
}

static inline bool taps_next(Taps *t, const Window *w)
{
    if (++t->j >= t->hi[1])
        return next_plane(t, w);
    t->x += t->x_step;
    t->y += t->y_step;
    return true;
}

#define EACH_TAP(t, w) for (Taps t = taps_start(w); taps_next(&t, w);)
/* ROW(x, s, ...): the usual steps are loops of their own, which the compiler can vectorise. */
#define BY_STEP(ROW, x, ...)    \
    if (s == 1)                 \
        ROW(x, 1, __VA_ARGS__); \
    else if (s == 2)            \
        ROW(x, 2, __VA_ARGS__); \
    else                        \
        ROW(x, s, __VA_ARGS__);
#define EACH_PLANE(p) \
    _Pragma("omp parallel for num_threads(p->team) schedule(static)") for (int64_t c = 0; c < p->planes; c++)

/* The index of an element of a plane, as wide as the type, so that one mask chooses both. */
typedef int32_t Index_f32;
typedef int64_t Index_f64;

#define BODY "kernels/cpu/cpu_pool.inc"
#include "kernels/each_type.inc"

#define GLOBAL(t) \
    team_size(ctx, shape_numel(&(t).shape)), shape_count(&(t).shape, 0, 2), shape_count(&(t).shape, 2, (t).shape.rank)
RUN_FLOAT(run_max, max, state, in[0].data, out[0].data)
RUN_FLOAT(run_max_grad, max_grad, state, ctx->scratch, in[0].data, in[1].data, out[0].data)
RUN_FLOAT(run_average, average, state, in[0].data, out[0].data)
RUN_FLOAT(run_average_grad, average_grad, state, in[0].data, out[0].data)
RUN_FLOAT(run_global, global, GLOBAL(in[0]), in[0].data, out[0].data)

static bool values_only(const Graph *g, const Node *n)
{
    return !has_out(n, 1) && shape_numel(in_value(g, n, 0)->shape) > 0;
}

/* Places within a plane fit into 31 bits, and there is something to do. */
static bool small_planes(const Graph *g, const Node *n)
{
    const Shape *x = value(g, n->out[0])->shape;

    return shape_numel(x) > 0 && shape_count(x, 2, x->rank) < INT32_MAX;
}

#define COMMON .dtypes = DTYPES_F32_F64, .release = cpu_pool_release

DEFINE_KERNEL(cpu_max_pool, .op = &op_MaxPool, COMMON, .supports = values_only, .prepare = cpu_pool_prepare_forward,
              .run = run_max);
DEFINE_KERNEL(cpu_max_pool_grad, .op = &op_MaxPoolGrad, COMMON, .supports = small_planes, .prepare = prepare_max_grad,
              .run = run_max_grad);
DEFINE_KERNEL(cpu_average_pool, .op = &op_AveragePool, COMMON, .supports = values_only,
              .prepare = cpu_pool_prepare_forward, .run = run_average);
DEFINE_KERNEL(cpu_average_pool_grad, .op = &op_AveragePoolGrad, COMMON, .supports = small_planes,
              .prepare = cpu_pool_prepare_backward, .run = run_average_grad);
DEFINE_KERNEL(cpu_global_average_pool, .op = &op_GlobalAveragePool, .dtypes = DTYPES_F32_F64, .run = run_global);
