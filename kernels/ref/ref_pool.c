/* Pooling by scanning each window in row-major order. */
#include <math.h>

#include "graph/ops/pool.gen.h"
#include "graph/ops/pool.h"
#include "kernels/ref/ref.h"

typedef struct {
    Window win;
    int64_t planes, norm; /* norm: p of LpPool */
    bool include_pad, column_major, indices, places;
} Plan;

/* From the input's and the output's shapes. */
static Status ref_pool_make_plan(void **state, const Node *n, const Shape *x, const Shape *y)
{
    Plan p = { .planes = x->dim[0] * x->dim[1], .indices = has_out(n, 1) && n->op == &op_MaxPool };
    int count;

    window_read(&p.win, n, x, y, node_ints(n, "kernel_shape", &count));
    p.places = n->op == &op_MaxPoolPlaces;
    p.include_pad = node_attr(n, "count_include_pad") && node_int(n, "count_include_pad");
    p.column_major = node_attr(n, "storage_order") && node_int(n, "storage_order");
    p.norm = node_attr(n, "p") ? node_int(n, "p") : 0;
    return kernel_state(state, &p, sizeof p);
}

static Status ref_pool_prepare_forward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_pool_make_plan(state, n, in_value(g, n, 0)->shape, value(g, n->out[0])->shape);
}

static Status ref_pool_prepare_backward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_pool_make_plan(state, n, value(g, n->out[0])->shape, in_value(g, n, 0)->shape);
}

/* From the shapes of dy and x, inputs 0 and 1. */
static Status prepare_lp_grad(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_pool_make_plan(state, n, in_value(g, n, 1)->shape, in_value(g, n, 0)->shape);
}

/* Kernel positions [lo, hi) of the window at output position o that lie inside the input. */
static void inside(const Window *w, int axis, int64_t o, int64_t *lo, int64_t *hi)
{
    int64_t start = o * w->stride[axis] - w->pad[axis], d = w->dilation[axis];

    *lo = start >= 0 ? 0 : (-start + d - 1) / d;
    *hi = start >= w->in[axis] ? 0 : (w->in[axis] - 1 - start) / d + 1;
    if (*hi > w->kernel[axis])
        *hi = w->kernel[axis];
}

/* Those that lie inside the input or its explicit padding: what count_include_pad counts. */
static int64_t padded_count(const Window *w, int axis, int64_t o)
{
    int64_t room = w->in[axis] + w->pad_end[axis] - (o * w->stride[axis] - w->pad[axis]);
    int64_t count = room <= 0 ? 0 : (room - 1) / w->dilation[axis] + 1;

    return count < w->kernel[axis] ? count : w->kernel[axis];
}

/* On to the next output position, in row-major order. */
static void ref_pool_advance(int64_t *o, const int64_t *dim)
{
    for (int a = 2; a >= 0; a--) {
        if (++o[a] < dim[a])
            return;
        o[a] = 0;
    }
}

/* Visits the input offsets `at` of the window at output position o, in row-major order. */
typedef struct {
    int64_t lo[3], hi[3], k[3], at;
    bool more;
} Scan;

static int64_t offset(const Window *w, const int64_t *o, const int64_t *k)
{
    int64_t at = 0;

    for (int a = 0; a < 3; a++)
        at = at * w->in[a] + o[a] * w->stride[a] + k[a] * w->dilation[a] - w->pad[a];
    return at;
}

static Scan scan_start(const Window *w, const int64_t *o)
{
    Scan s = { .more = true };

    for (int a = 0; a < 3; a++) {
        inside(w, a, o[a], &s.lo[a], &s.hi[a]);
        s.k[a] = s.lo[a];
        s.more = s.more && s.lo[a] < s.hi[a];
    }
    s.at = offset(w, o, s.k);
    return s;
}

static void scan_next(Scan *s, const Window *w, const int64_t *o)
{
    for (int a = 2; a >= 0; a--) {
        if (++s->k[a] < s->hi[a]) {
            s->at = a == 2 ? s->at + w->dilation[2] : offset(w, o, s->k);
            return;
        }
        s->k[a] = s->lo[a];
    }
    s->more = false;
}

/* The same position counted with the first spatial axis running fastest. */
static int64_t column_major(const Window *w, int64_t at)
{
    int64_t x2 = at % w->in[2], x1 = at / w->in[2] % w->in[1], x0 = at / w->in[2] / w->in[1];

    return (x2 * w->in[1] + x1) * w->in[0] + x0;
}

/* The place within the window at o, in row-major order, of position `at` of the plane. */
static int64_t place_within(const Window *w, const int64_t *o, int64_t at)
{
    int64_t place = 0, step = 1;

    for (int a = 2; a >= 0; a--) {
        const int64_t x = at % w->in[a];

        place += (x + w->pad[a] - o[a] * w->stride[a]) / w->dilation[a] * step;
        step *= w->kernel[a];
        at /= w->in[a];
    }
    return place;
}

/* The inverse; -1 for a place that is outside of the plane, or none. */
static int64_t position_of(const Window *w, const int64_t *o, int64_t place)
{
    int64_t k[3], x;

    if (place >= window_numel(w->kernel))
        return -1;
    for (int a = 2; a >= 0; a--) {
        k[a] = place % w->kernel[a];
        place /= w->kernel[a];
        x = o[a] * w->stride[a] + k[a] * w->dilation[a] - w->pad[a];
        if (x < 0 || x >= w->in[a])
            return -1;
    }
    return offset(w, o, k);
}

/* 1 / the number of elements that the window at o averages; 0 for none. */
static double ref_pool_share(const Plan *p, const int64_t *o)
{
    double count = 1;
    int64_t lo, hi;

    for (int a = 0; a < 3; a++) {
        inside(&p->win, a, o[a], &lo, &hi);
        count *= p->include_pad ? (double)padded_count(&p->win, a, o[a]) : (double)(hi > lo ? hi - lo : 0);
    }
    return count > 0 ? 1 / count : 0;
}

/* |x|^p */
static double power(double x, int64_t p)
{
    return p == 0 ? 1 : p == 1 ? fabs(x) : p == 2 ? x * x : pow(fabs(x), (double)p);
}

#define BODY "kernels/ref/ref_pool_max.inc"
#define TYPES (OF_FLOATS | OF_I8 | OF_U8)
#include "kernels/each_type.inc"
#define BODY "kernels/ref/ref_pool.inc"
#include "kernels/each_type.inc"

static Status ref_pool_run_max(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const max[])(const Plan *, const Tensor *,
                               Tensor *) = { OF_EACH_FLOAT(max), [DT_INT8] = max_i8, [DT_UINT8] = max_u8 };

    (void)ctx;
    max[in[0].dtype](state, in, out);
    return ST_OK;
}

#define PLANES_OF(x) shape_count(&(x).shape, 0, 2), shape_count(&(x).shape, 2, (x).shape.rank)
RUN_FLOAT(run_max_grad, max_grad, state, in[0].data, in[1].data, out[0].data)
RUN_FLOAT(run_places_grad, places_grad, state, in[0].data, in[1].data, out[0].data)
RUN_FLOAT(run_average, average, state, in[0].data, out[0].data)
RUN_FLOAT(run_average_grad, average_grad, state, in[0].data, out[0].data)
RUN_FLOAT(run_lp, lp, state, in[0].data, out[0].data)
RUN_FLOAT(run_lp_grad, lp_grad, state, in[0].data, in[1].data, in[2].data, out[0].data)
RUN_FLOAT(run_global_average, global_average, PLANES_OF(in[0]), in[0].data, out[0].data)
RUN_FLOAT(run_global_max, global_max, PLANES_OF(in[0]), in[0].data, out[0].data)

DEFINE_KERNEL(ref_max_pool, .op = &op_MaxPool, .dtypes = DTYPES_F32_F64 | DTYPE_BIT(DT_INT8) | DTYPE_BIT(DT_UINT8),
              .prepare = ref_pool_prepare_forward, .run = ref_pool_run_max, .release = free);
DEFINE_KERNEL(ref_max_pool_grad, .op = &op_MaxPoolGrad, .dtypes = DTYPES_F32_F64, .prepare = ref_pool_prepare_backward,
              .run = run_max_grad, .release = free);
DEFINE_KERNEL(ref_max_pool_places, .op = &op_MaxPoolPlaces, .dtypes = DTYPES_F32_F64,
              .prepare = ref_pool_prepare_forward, .run = ref_pool_run_max, .release = free);
DEFINE_KERNEL(ref_max_pool_places_grad, .op = &op_MaxPoolPlacesGrad, .dtypes = DTYPES_F32_F64,
              .prepare = ref_pool_prepare_backward, .run = run_places_grad, .release = free);
DEFINE_KERNEL(ref_average_pool, .op = &op_AveragePool, .dtypes = DTYPES_F32_F64, .prepare = ref_pool_prepare_forward,
              .run = run_average, .release = free);
DEFINE_KERNEL(ref_average_pool_grad, .op = &op_AveragePoolGrad, .dtypes = DTYPES_F32_F64,
              .prepare = ref_pool_prepare_backward, .run = run_average_grad, .release = free);
DEFINE_KERNEL(ref_lp_pool, .op = &op_LpPool, .dtypes = DTYPES_F32_F64, .prepare = ref_pool_prepare_forward,
              .run = run_lp, .release = free);
DEFINE_KERNEL(ref_lp_pool_grad, .op = &op_LpPoolGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare_lp_grad,
              .run = run_lp_grad, .release = free);
DEFINE_KERNEL(ref_global_average_pool, .op = &op_GlobalAveragePool, .dtypes = DTYPES_F32_F64,
              .run = run_global_average);
DEFINE_KERNEL(ref_global_max_pool, .op = &op_GlobalMaxPool, .dtypes = DTYPES_F32_F64, .run = run_global_max);
