/* LayerNormalization and its gradient, row by row; mean and variance in double by two passes. */
#include <math.h>

#include "kernels/ref/ref.h"

typedef struct {
    int64_t rows, n;
    double epsilon;
    bool has_bias, has_mean, has_inv;
} Plan;

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = &in_value(g, n, 0)->shape;
    int axis = (int)node_int(n, "axis");
    Plan *p = malloc(sizeof *p);

    (void)ctx;
    if (!p)
        return FAIL_NOMEM();
    *p = (Plan){ shape_count(x, 0, axis),
                 shape_count(x, axis, x->rank),
                 node_float(n, "epsilon"),
                 has_in(n, 2),
                 has_out(n, 1),
                 has_out(n, 2) };
    *state = p;
    return ST_OK;
}

/* dx = inv * (h - mean(h) - xhat * mean(h * xhat)) with h = dy * scale. */
#define NORM(S, T)                                                                                               \
    static void moments_##S(const Plan *p, const T *x, double *mean, double *inv)                                \
    {                                                                                                            \
        double sum = 0, squares = 0;                                                                             \
        for (int64_t i = 0; i < p->n; i++)                                                                       \
            sum += (double)x[i];                                                                                 \
        *mean = sum / (double)p->n;                                                                              \
        for (int64_t i = 0; i < p->n; i++)                                                                       \
            squares += ((double)x[i] - *mean) * ((double)x[i] - *mean);                                          \
        *inv = 1 / sqrt(squares / (double)p->n + p->epsilon);                                                    \
    }                                                                                                            \
    static void forward_##S(const Plan *p, const T *x, const T *scale, const T *bias, T *y, T *means, T *invs)   \
    {                                                                                                            \
        for (int64_t r = 0; r < p->rows; r++, x += p->n, y += p->n) {                                            \
            double mean, inv;                                                                                    \
            moments_##S(p, x, &mean, &inv);                                                                      \
            for (int64_t i = 0; i < p->n; i++)                                                                   \
                y[i] = (T)(((double)x[i] - mean) * inv) * scale[i] + (bias ? bias[i] : 0);                       \
            if (means)                                                                                           \
                means[r] = (T)mean;                                                                              \
            if (invs)                                                                                            \
                invs[r] = (T)inv;                                                                                \
        }                                                                                                        \
    }                                                                                                            \
    static void backward_##S(const Plan *p, const T *x, const T *dy, const T *scale, T *dx, T *dscale, T *dbias) \
    {                                                                                                            \
        for (int64_t i = 0; i < p->n; i++)                                                                       \
            dscale[i] = dbias[i] = 0;                                                                            \
        for (int64_t r = 0; r < p->rows; r++, x += p->n, dy += p->n, dx += p->n) {                               \
            double mean, inv, h = 0, hx = 0;                                                                     \
            moments_##S(p, x, &mean, &inv);                                                                      \
            for (int64_t i = 0; i < p->n; i++) {                                                                 \
                double xhat = ((double)x[i] - mean) * inv, d = (double)dy[i] * (double)scale[i];                 \
                h += d;                                                                                          \
                hx += d * xhat;                                                                                  \
                dscale[i] += (T)((double)dy[i] * xhat);                                                          \
                dbias[i] += dy[i];                                                                               \
            }                                                                                                    \
            h /= (double)p->n;                                                                                   \
            hx /= (double)p->n;                                                                                  \
            for (int64_t i = 0; i < p->n; i++) {                                                                 \
                double xhat = ((double)x[i] - mean) * inv;                                                       \
                dx[i] = (T)(inv * ((double)dy[i] * (double)scale[i] - h - xhat * hx));                           \
            }                                                                                                    \
        }                                                                                                        \
    }
NORM(f32, float)
NORM(f64, double)

static Status run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    const void *bias = p->has_bias ? in[2].data : NULL;
    void *mean = p->has_mean ? out[1].data : NULL, *inv = p->has_inv ? out[2].data : NULL;

    (void)ctx;
    if (in[0].dtype == DT_FLOAT32)
        forward_f32(p, in[0].data, in[1].data, bias, out[0].data, mean, inv);
    else
        forward_f64(p, in[0].data, in[1].data, bias, out[0].data, mean, inv);
    return ST_OK;
}

static Status run_backward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    if (in[0].dtype == DT_FLOAT32)
        backward_f32(state, in[0].data, in[1].data, in[2].data, out[0].data, out[1].data, out[2].data);
    else
        backward_f64(state, in[0].data, in[1].data, in[2].data, out[0].data, out[1].data, out[2].data);
    return ST_OK;
}

/* Scale and bias of the full normalised size; smaller ones are stretched by the operator's lowering. */
static bool full_size(const Graph *g, const Node *n)
{
    const Shape *x = &in_value(g, n, 0)->shape;
    int64_t size = shape_count(x, (int)node_int(n, "axis"), x->rank);

    return shape_numel(&in_value(g, n, 1)->shape) == size &&
           (!has_in(n, 2) || shape_numel(&in_value(g, n, 2)->shape) == size);
}

DEFINE_KERNEL(ref_layer_normalization, .op = &op_LayerNormalization, .dtypes = DTYPES_F32_F64, .supports = full_size,
              .prepare = prepare, .run = run_forward, .release = free);
DEFINE_KERNEL(ref_layer_norm_grad, .op = &op_LayerNormGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare,
              .run = run_backward, .release = free);
