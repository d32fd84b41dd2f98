/* Pooling by scanning each window in row-major order. */
#include <math.h>

#include "graph/ops/window.h"
#include "kernels/ref/ref.h"
#include "kernels/run_float.h"

typedef struct {
    Window win;
    int64_t planes;
    bool include_pad, column_major, indices;
} Plan;

/* From the input's and the output's shapes. */
static Status make_plan(void **state, const Node *n, const Shape *x, const Shape *y)
{
    Plan *p = calloc(1, sizeof *p);
    int count;

    if (!p)
        return FAIL_NOMEM();
    window_read(&p->win, n, x, y, node_ints(n, "kernel_shape", &count));
    p->planes = x->dim[0] * x->dim[1];
    p->include_pad = node_attr(n, "count_include_pad") && node_int(n, "count_include_pad");
    p->column_major = node_attr(n, "storage_order") && node_int(n, "storage_order");
    p->indices = has_out(n, 1);
    *state = p;
    return ST_OK;
}

static Status prepare_forward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return make_plan(state, n, &in_value(g, n, 0)->shape, &value(g, n->out[0])->shape);
}

static Status prepare_backward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return make_plan(state, n, &value(g, n->out[0])->shape, &in_value(g, n, 0)->shape);
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

/* Calls BODY for each input offset `at` of the window at (o0, o1, o2). */
#define EACH_IN_WINDOW(w, o, BODY)                                                             \
    {                                                                                          \
        int64_t lo[3], hi[3];                                                                  \
        for (int a = 0; a < 3; a++)                                                            \
            inside(w, a, (o)[a], &lo[a], &hi[a]);                                              \
        for (int64_t i = lo[0]; i < hi[0]; i++)                                                \
            for (int64_t j = lo[1]; j < hi[1]; j++)                                            \
                for (int64_t k = lo[2]; k < hi[2]; k++) {                                      \
                    int64_t x0 = (o)[0] * (w)->stride[0] + i * (w)->dilation[0] - (w)->pad[0]; \
                    int64_t x1 = (o)[1] * (w)->stride[1] + j * (w)->dilation[1] - (w)->pad[1]; \
                    int64_t x2 = (o)[2] * (w)->stride[2] + k * (w)->dilation[2] - (w)->pad[2]; \
                    int64_t at = (x0 * (w)->in[1] + x1) * (w)->in[2] + x2;                     \
                    BODY                                                                       \
                }                                                                              \
    }
#define EACH_OUTPUT(w, BODY)                               \
    {                                                      \
        int64_t o[3];                                      \
        for (o[0] = 0; o[0] < (w)->out[0]; o[0]++)         \
            for (o[1] = 0; o[1] < (w)->out[1]; o[1]++)     \
                for (o[2] = 0; o[2] < (w)->out[2]; o[2]++) \
                    BODY                                   \
    }

/* The same position counted with the first spatial axis running fastest. */
static int64_t column_major(const Window *w, int64_t at)
{
    int64_t x2 = at % w->in[2], x1 = at / w->in[2] % w->in[1], x0 = at / w->in[2] / w->in[1];

    return (x2 * w->in[1] + x1) * w->in[0] + x0;
}

#define ARGMAX(NAME, T, LOWEST)                                                                 \
    /* Offset of the first largest element in the plane x, -1 for a window of padding alone. */ \
    static int64_t NAME(const Window *w, const T *x, const int64_t *o, T *max)                  \
    {                                                                                           \
        int64_t best = -1;                                                                      \
        *max = LOWEST;                                                                          \
        EACH_IN_WINDOW(                                                                         \
            w, o, if (best < 0 || x[at] > *max || (x[at] != x[at] && *max == *max)) {           \
                *max = x[at];                                                                   \
                best = at;                                                                      \
            })                                                                                  \
        return best;                                                                            \
    }
#define MAXPOOL(NAME, T, ARGMAX)                                      \
    static void NAME(const Plan *p, const T *x, T *y, int64_t *index) \
    {                                                                 \
        int64_t size = window_numel(p->win.in);                       \
        for (int64_t c = 0; c < p->planes; c++)                       \
            EACH_OUTPUT(&p->win, {                                    \
                int64_t at = ARGMAX(&p->win, x + c * size, o, y++);   \
                if (index && p->column_major && at >= 0)              \
                    at = column_major(&p->win, at);                   \
                if (index)                                            \
                    *index++ = at < 0 ? -1 : c * size + at;           \
            })                                                        \
    }
#define MAXPOOL_GRAD(NAME, T, ARGMAX)                                \
    static void NAME(const Plan *p, const T *dy, const T *x, T *dx)  \
    {                                                                \
        int64_t size = window_numel(p->win.in);                      \
        for (int64_t i = 0; i < p->planes * size; i++)               \
            dx[i] = 0;                                               \
        for (int64_t c = 0; c < p->planes; c++)                      \
            EACH_OUTPUT(&p->win, {                                   \
                T max;                                               \
                int64_t at = ARGMAX(&p->win, x + c * size, o, &max); \
                if (at >= 0)                                         \
                    dx[c * size + at] += *dy;                        \
                dy++;                                                \
            })                                                       \
    }
/* 1 / the number of elements that the window at o averages; 0 for none. */
static double share(const Plan *p, const int64_t *o)
{
    double count = 1;
    int64_t lo, hi;

    for (int a = 0; a < 3; a++) {
        inside(&p->win, a, o[a], &lo, &hi);
        count *= p->include_pad ? (double)padded_count(&p->win, a, o[a]) : (double)(hi > lo ? hi - lo : 0);
    }
    return count > 0 ? 1 / count : 0;
}

#define AVERAGE(NAME, T)                                   \
    static void NAME(const Plan *p, const T *x, T *y)      \
    {                                                      \
        int64_t size = window_numel(p->win.in);            \
        for (int64_t c = 0; c < p->planes; c++, x += size) \
            EACH_OUTPUT(&p->win, {                         \
                T sum = 0;                                 \
                EACH_IN_WINDOW(&p->win, o, sum += x[at];)  \
                *y++ = (T)((double)sum * share(p, o));     \
            })                                             \
    }
#define AVERAGE_GRAD(NAME, T)                               \
    static void NAME(const Plan *p, const T *dy, T *dx)     \
    {                                                       \
        int64_t size = window_numel(p->win.in);             \
        for (int64_t i = 0; i < p->planes * size; i++)      \
            dx[i] = 0;                                      \
        for (int64_t c = 0; c < p->planes; c++, dx += size) \
            EACH_OUTPUT(&p->win, {                          \
                T d = (T)((double)*dy++ * share(p, o));     \
                EACH_IN_WINDOW(&p->win, o, dx[at] += d;)    \
            })                                              \
    }
#define GLOBAL(NAME_AVERAGE, NAME_MAX, T)                                    \
    static void NAME_AVERAGE(int64_t planes, int64_t size, const T *x, T *y) \
    {                                                                        \
        for (int64_t c = 0; c < planes; c++) {                               \
            T sum = 0;                                                       \
            for (int64_t i = 0; i < size; i++)                               \
                sum += *x++;                                                 \
            *y++ = sum / (T)size;                                            \
        }                                                                    \
    }                                                                        \
    static void NAME_MAX(int64_t planes, int64_t size, const T *x, T *y)     \
    {                                                                        \
        for (int64_t c = 0; c < planes; c++, x += size) {                    \
            T max = x[0];                                                    \
            for (int64_t i = 1; i < size; i++)                               \
                max = x[i] > max || x[i] != x[i] ? x[i] : max;               \
            *y++ = max;                                                      \
        }                                                                    \
    }

ARGMAX(argmax_f32, float, -INFINITY)
ARGMAX(argmax_f64, double, -(double)INFINITY)
ARGMAX(argmax_i8, int8_t, INT8_MIN)
ARGMAX(argmax_u8, uint8_t, 0)
MAXPOOL(max_f32, float, argmax_f32)
MAXPOOL(max_f64, double, argmax_f64)
MAXPOOL(max_i8, int8_t, argmax_i8)
MAXPOOL(max_u8, uint8_t, argmax_u8)
MAXPOOL_GRAD(max_grad_f32, float, argmax_f32)
MAXPOOL_GRAD(max_grad_f64, double, argmax_f64)
AVERAGE(average_f32, float)
AVERAGE(average_f64, double)
AVERAGE_GRAD(average_grad_f32, float)
AVERAGE_GRAD(average_grad_f64, double)
GLOBAL(global_average_f32, global_max_f32, float)
GLOBAL(global_average_f64, global_max_f64, double)

static Status run_max(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    int64_t *index = ((Plan *)state)->indices ? out[1].data : NULL;

    (void)ctx;
    switch (in[0].dtype) {
    case DT_FLOAT32: max_f32(state, in[0].data, out[0].data, index); break;
    case DT_FLOAT64: max_f64(state, in[0].data, out[0].data, index); break;
    case DT_INT8: max_i8(state, in[0].data, out[0].data, index); break;
    default: max_u8(state, in[0].data, out[0].data, index); break;
    }
    return ST_OK;
}

#define PLANES_OF(x) shape_count(&(x).shape, 0, 2), shape_count(&(x).shape, 2, (x).shape.rank)
RUN_FLOAT(run_max_grad, max_grad, state, in[0].data, in[1].data, out[0].data)
RUN_FLOAT(run_average, average, state, in[0].data, out[0].data)
RUN_FLOAT(run_average_grad, average_grad, state, in[0].data, out[0].data)
RUN_FLOAT(run_global_average, global_average, PLANES_OF(in[0]), in[0].data, out[0].data)
RUN_FLOAT(run_global_max, global_max, PLANES_OF(in[0]), in[0].data, out[0].data)

DEFINE_KERNEL(ref_max_pool, .op = &op_MaxPool, .dtypes = DTYPES_F32_F64 | DTYPE_BIT(DT_INT8) | DTYPE_BIT(DT_UINT8),
              .prepare = prepare_forward, .run = run_max, .release = free);
DEFINE_KERNEL(ref_max_pool_grad, .op = &op_MaxPoolGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare_backward,
              .run = run_max_grad, .release = free);
DEFINE_KERNEL(ref_average_pool, .op = &op_AveragePool, .dtypes = DTYPES_F32_F64, .prepare = prepare_forward,
              .run = run_average, .release = free);
DEFINE_KERNEL(ref_average_pool_grad, .op = &op_AveragePoolGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare_backward,
              .run = run_average_grad, .release = free);
DEFINE_KERNEL(ref_global_average_pool, .op = &op_GlobalAveragePool, .dtypes = DTYPES_F32_F64,
              .run = run_global_average);
DEFINE_KERNEL(ref_global_max_pool, .op = &op_GlobalMaxPool, .dtypes = DTYPES_F32_F64, .run = run_global_max);
