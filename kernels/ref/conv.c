/* Convolution and its gradients as the defining sum: for each kernel position, rows of input and output are paired.
 *
 * All operators visit the same (row, weight) pairs; only what is accumulated into differs.  ConvRelu is Conv and then
 * max(0, y + z). */
#include "graph/ops/conv.h"
#include "graph/ops/window.h"
#include "kernels/ref/ref.h"

typedef struct {
    Window win;
    int64_t batch, group, cg, mg; /* channels of x and y per group */
    bool bias, added;
} Plan;

/* Plan from the shapes in x's, w's and y's roles. */
static Status make_plan(void **state, const Node *n, const Shape *x, const Shape *w, const Shape *y)
{
    Plan *p = malloc(sizeof *p);

    if (!p)
        return FAIL_NOMEM();
    window_read(&p->win, n, x, y, w->dim + 2);
    p->batch = x->dim[0];
    p->group = node_int(n, "group");
    p->cg = w->dim[1];
    p->mg = w->dim[0] / p->group;
    p->bias = has_in(n, CONV_IN_BIAS);
    p->added = has_in(n, CONV_IN_ADDED);
    *state = p;
    return ST_OK;
}

static Status prepare_conv(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return make_plan(state, n, &in_value(g, n, 0)->shape, &in_value(g, n, 1)->shape, &value(g, n->out[0])->shape);
}

static Status prepare_input(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return make_plan(state, n, &value(g, n->out[0])->shape, &in_value(g, n, 1)->shape, &in_value(g, n, 0)->shape);
}

static Status prepare_weight(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return make_plan(state, n, &in_value(g, n, 0)->shape, &value(g, n->out[0])->shape, &in_value(g, n, 1)->shape);
}

/* One plane of x and one of y under one kernel: ROW(xr, yr, wt, stride, count) for each kernel position and output
 * row. */
#define PLANE(NAME, T, ROW)                                                                    \
    static void NAME(const Window *v, T *x, T *w, T *y)                                        \
    {                                                                                          \
        int64_t lo[3], hi[3], k[3], s = v->stride[2];                                          \
        for (k[0] = 0; k[0] < v->kernel[0]; k[0]++)                                            \
            for (k[1] = 0; k[1] < v->kernel[1]; k[1]++)                                        \
                for (k[2] = 0; k[2] < v->kernel[2]; k[2]++, w++) {                             \
                    for (int a = 0; a < 3; a++)                                                \
                        window_range(v, a, k[a], &lo[a], &hi[a]);                              \
                    for (int64_t i = lo[0]; i < hi[0]; i++)                                    \
                        for (int64_t j = lo[1]; j < hi[1]; j++) {                              \
                            int64_t xi = i * v->stride[0] + k[0] * v->dilation[0] - v->pad[0]; \
                            int64_t xj = j * v->stride[1] + k[1] * v->dilation[1] - v->pad[1]; \
                            int64_t xl = lo[2] * s + k[2] * v->dilation[2] - v->pad[2];        \
                            T *xr = x + (xi * v->in[1] + xj) * v->in[2] + xl;                  \
                            T *yr = y + (i * v->out[1] + j) * v->out[2] + lo[2];               \
                            for (int64_t t = 0; t < hi[2] - lo[2]; t++)                        \
                                ROW(xr[t * s], *w, yr[t]);                                     \
                        }                                                                      \
                }                                                                              \
    }
#define TO_Y(x, w, y) (y) += (w) * (x)
#define TO_X(x, w, y) (x) += (w) * (y)
#define TO_W(x, w, y) (w) += (x) * (y)

#define PLANES(NAME, PLANE, T)                                                                                 \
    static void NAME(const Plan *p, T *x, T *w, T *y)                                                          \
    {                                                                                                          \
        int64_t xs = window_numel(p->win.in), ys = window_numel(p->win.out), ks = window_numel(p->win.kernel); \
        for (int64_t b = 0; b < p->batch; b++)                                                                 \
            for (int64_t g = 0; g < p->group; g++)                                                             \
                for (int64_t m = g * p->mg; m < (g + 1) * p->mg; m++)                                          \
                    for (int64_t c = 0; c < p->cg; c++)                                                        \
                        PLANE(&p->win, x + ((b * p->group + g) * p->cg + c) * xs, w + (m * p->cg + c) * ks,    \
                              y + (b * p->group * p->mg + m) * ys);                                            \
    }

#define START(NAME, T)                                                                   \
    static void NAME(T *y, const T *bias, int64_t batch, int64_t channels, int64_t size) \
    {                                                                                    \
        for (int64_t i = 0; i < batch * channels; i++)                                   \
            for (int64_t j = 0; j < size; j++)                                           \
                *y++ = bias ? bias[i % channels] : 0;                                    \
    }

/* A NaN stays one. */
#define FINISH(NAME, T)                           \
    static void NAME(T *y, const T *z, int64_t n) \
    {                                             \
        for (int64_t i = 0; i < n; i++) {         \
            T v = y[i] + (z ? z[i] : 0);          \
            y[i] = v < 0 ? 0 : v;                 \
        }                                         \
    }

#define FAMILY(S, T)                  \
    PLANE(plane_y_##S, T, TO_Y)       \
    PLANE(plane_x_##S, T, TO_X)       \
    PLANE(plane_w_##S, T, TO_W)       \
    PLANES(sum_y_##S, plane_y_##S, T) \
    PLANES(sum_x_##S, plane_x_##S, T) \
    PLANES(sum_w_##S, plane_w_##S, T) \
    START(start_##S, T)               \
    FINISH(finish_##S, T)
FAMILY(f32, float)
FAMILY(f64, double)

static void start(DType t, Tensor *y, const Tensor *bias)
{
    const Shape *s = &y->shape;
    int64_t size = shape_count(s, 2, s->rank);

    if (t == DT_FLOAT32)
        start_f32(y->data, bias ? bias->data : NULL, s->dim[0], s->dim[1], size);
    else
        start_f64(y->data, bias ? bias->data : NULL, s->dim[0], s->dim[1], size);
}

/* The tensors in their roles: `in` and `out` hold x, w, y in the order of the operator. */
#define RUN(NAME, X, W, Y, SUM)                                                    \
    static Status NAME(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out) \
    {                                                                              \
        (void)ctx;                                                                 \
        start(in[0].dtype, &out[0], ((const Plan *)state)->bias ? &in[2] : NULL);  \
        if (in[0].dtype == DT_FLOAT32)                                             \
            SUM##_f32(state, X.data, W.data, Y.data);                              \
        else                                                                       \
            SUM##_f64(state, X.data, W.data, Y.data);                              \
        return ST_OK;                                                              \
    }
RUN(run_conv, in[0], in[1], out[0], sum_y)
RUN(run_input, out[0], in[1], in[0], sum_x)
RUN(run_weight, in[0], out[0], in[1], sum_w)

static Status run_conv_relu(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const void *z = ((const Plan *)state)->added ? in[CONV_IN_ADDED].data : NULL;

    TRY(run_conv(ctx, state, in, out));
    if (in[0].dtype == DT_FLOAT32)
        finish_f32(out[0].data, z, tensor_numel(&out[0]));
    else
        finish_f64(out[0].data, z, tensor_numel(&out[0]));
    return ST_OK;
}

DEFINE_KERNEL(ref_conv, .op = &op_Conv, .dtypes = DTYPES_F32_F64, .prepare = prepare_conv, .run = run_conv,
              .release = free);
DEFINE_KERNEL(ref_conv_relu, .op = &op_ConvRelu, .dtypes = DTYPES_F32_F64, .prepare = prepare_conv,
              .run = run_conv_relu, .release = free);
DEFINE_KERNEL(ref_conv_grad_input, .op = &op_ConvGradInput, .dtypes = DTYPES_F32_F64, .prepare = prepare_input,
              .run = run_input, .release = free);
DEFINE_KERNEL(ref_conv_grad_weight, .op = &op_ConvGradWeight, .dtypes = DTYPES_F32_F64, .prepare = prepare_weight,
              .run = run_weight, .release = free);
DEFINE_KERNEL(ref_conv_transpose, .op = &op_ConvTranspose, .dtypes = DTYPES_F32_F64, .prepare = prepare_input,
              .run = run_input, .release = free);
