/* Maxima over 2 x 2 windows that lie side by side: the pooling of most image models.  Every input element belongs to
 * one window at most, so the backward pass writes all of dx once and needs to remember no places. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/pool.gen.h"
#include "kernels/backend.h"
#include "kernels/cpu/team.h"

static bool list_is(const Node *n, const char *name, int64_t wanted)
{
    int count;
    const int64_t *list = node_ints(n, name, &count);

    for (int i = 0; i < count; i++)
        if (list[i] != wanted)
            return false;
    return true;
}

/* Windows inside the input: a last odd row or column belongs to none. */
static bool pool_2x2_fits(const Node *n, const Shape *x, const Shape *y)
{
    return x->rank == 4 && shape_numel(x) > 0 && list_is(n, "kernel_shape", 2) && list_is(n, "strides", 2) &&
           list_is(n, "dilations", 1) && list_is(n, "pads", 0) && y->dim[2] == x->dim[2] / 2 &&
           y->dim[3] == x->dim[3] / 2;
}

static bool supports_forward(const Graph *g, const Node *n)
{
    return !has_out(n, 1) && pool_2x2_fits(n, in_value(g, n, 0)->shape, value(g, n->out[0])->shape);
}

static bool supports_backward(const Graph *g, const Node *n)
{
    return pool_2x2_fits(n, value(g, n->out[0])->shape, in_value(g, n, 0)->shape);
}

typedef float V8 __attribute__((vector_size(32)));
typedef int32_t M8 __attribute__((vector_size(32))); /* all bits of an element, or none */
enum { LANES = 8 };

/* Macros where a function would take or return vectors, whose ABI depends on the machine compiled for.
 *
 * BEATS: whether b, which comes after a, is the larger: the first of equal elements wins, a NaN above all.  Comparing
 * pairs and then their winners finds what comparing one after another does. */
#define BEATS(b, a) ((M8)((b) > (a)) | ((M8)((b) != (b)) & (M8)((a) == (a))))
#define CHOOSE(mask, yes, no) ((V8)(((mask) & (M8)(yes)) | (~(mask) & (M8)(no))))
#define KEEP(mask, v) ((V8)((mask) & (M8)(v)))

/* Elements 0, 2 .. 14 and 1, 3 .. 15. */
static inline void load_pairs(const float *x, V8 *even, V8 *odd)
{
    V8 a, b;

    memcpy(&a, x, sizeof a);
    memcpy(&b, x + LANES, sizeof b);
    *even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    *odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}

static inline void store_pairs(float *x, const V8 *even, const V8 *odd)
{
    V8 a = __builtin_shufflevector(*even, *odd, 0, 8, 1, 9, 2, 10, 3, 11);
    V8 b = __builtin_shufflevector(*even, *odd, 4, 12, 5, 13, 6, 14, 7, 15);

    memcpy(x, &a, sizeof a);
    memcpy(x + LANES, &b, sizeof b);
}

/* Eight windows: 16 elements of `upper` and of `lower`. */
static inline void max8(const float *upper, const float *lower, float *y)
{
    V8 x0, x1, x2, x3, a, b, top;

    load_pairs(upper, &x0, &x1);
    load_pairs(lower, &x2, &x3);
    a = CHOOSE(BEATS(x1, x0), x1, x0);
    b = CHOOSE(BEATS(x3, x2), x3, x2);
    top = CHOOSE(BEATS(b, a), b, a);
    memcpy(y, &top, sizeof top);
}

static inline void grad8(const float *upper, const float *lower, const float *dy, float *dupper, float *dlower)
{
    V8 x0, x1, x2, x3, a, b, d, even, odd;
    M8 a_odd, b_odd, low;

    load_pairs(upper, &x0, &x1);
    load_pairs(lower, &x2, &x3);
    memcpy(&d, dy, sizeof d);
    a_odd = BEATS(x1, x0);
    b_odd = BEATS(x3, x2);
    a = CHOOSE(a_odd, x1, x0);
    b = CHOOSE(b_odd, x3, x2);
    low = BEATS(b, a);
    even = KEEP(~low & ~a_odd, d);
    odd = KEEP(~low & a_odd, d);
    store_pairs(dupper, &even, &odd);
    even = KEEP(low & ~b_odd, d);
    odd = KEEP(low & b_odd, d);
    store_pairs(dlower, &even, &odd);
}

/* The last, fewer than eight windows of a row go through copies that are padded. */
static void max_row(const float *x, int64_t w, float *y, int64_t n)
{
    float in[2][2 * LANES] = { { 0 } }, out[LANES];
    int64_t t = 0;
    size_t rest;

    for (; t + LANES <= n; t += LANES)
        max8(x + 2 * t, x + w + 2 * t, y + t);
    if (!(rest = (size_t)(n - t)))
        return;
    memcpy(in[0], x + 2 * t, 2 * rest * sizeof *x);
    memcpy(in[1], x + w + 2 * t, 2 * rest * sizeof *x);
    max8(in[0], in[1], out);
    memcpy(y + t, out, rest * sizeof *y);
}

static void grad_row(const float *x, int64_t w, const float *dy, float *dx, int64_t n)
{
    float in[2][2 * LANES] = { { 0 } }, d[LANES] = { 0 }, out[2][2 * LANES];
    int64_t t = 0;
    size_t rest;

    for (; t + LANES <= n; t += LANES)
        grad8(x + 2 * t, x + w + 2 * t, dy + t, dx + 2 * t, dx + w + 2 * t);
    if (!(rest = (size_t)(n - t)))
        return;
    memcpy(in[0], x + 2 * t, 2 * rest * sizeof *x);
    memcpy(in[1], x + w + 2 * t, 2 * rest * sizeof *x);
    memcpy(d, dy + t, rest * sizeof *dy);
    grad8(in[0], in[1], d, out[0], out[1]);
    memcpy(dx + 2 * t, out[0], 2 * rest * sizeof *dx);
    memcpy(dx + w + 2 * t, out[1], 2 * rest * sizeof *dx);
}

static Status pool_2x2_run_max(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const int64_t *x_dim = in[0].shape.dim, *y_dim = out[0].shape.dim, planes = x_dim[0] * x_dim[1];
    const int team = team_size(ctx, tensor_numel(&in[0]));

    (void)state;
#pragma omp parallel for num_threads(team) schedule(static)
    for (int64_t c = 0; c < planes; c++) {
        const float *x = (const float *)in[0].data + c * x_dim[2] * x_dim[3];
        float *y = (float *)out[0].data + c * y_dim[2] * y_dim[3];

        for (int64_t i = 0; i < y_dim[2]; i++)
            max_row(x + 2 * i * x_dim[3], x_dim[3], y + i * y_dim[3], y_dim[3]);
    }
    return ST_OK;
}

/* dx of one plane of in_h x in_w elements. */
static void grad_plane(int64_t in_h, int64_t in_w, const float *dy, const float *x, float *dx)
{
    const int64_t out_h = in_h / 2, out_w = in_w / 2;

    for (int64_t i = 0; i < out_h; i++) {
        int64_t at = 2 * i * in_w;

        grad_row(x + at, in_w, dy + i * out_w, dx + at, out_w);
        if (in_w % 2)
            dx[at + in_w - 1] = dx[at + 2 * in_w - 1] = 0;
    }
    if (in_h % 2)
        memset(dx + (in_h - 1) * in_w, 0, (size_t)in_w * sizeof *dx);
}

static Status pool_2x2_run_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const int64_t *dim = out[0].shape.dim, planes = dim[0] * dim[1], dy_plane = (dim[2] / 2) * (dim[3] / 2),
                  x_plane = dim[2] * dim[3];
    const int team = team_size(ctx, tensor_numel(&out[0]));

    (void)state;
#pragma omp parallel for num_threads(team) schedule(static)
    for (int64_t c = 0; c < planes; c++)
        grad_plane(dim[2], dim[3], (const float *)in[0].data + c * dy_plane, (const float *)in[1].data + c * x_plane,
                   (float *)out[0].data + c * x_plane);
    return ST_OK;
}

/* Before the kernels for any window. */
#define FIRST .dtypes = DTYPE_BIT(DT_FLOAT32), .rank = -1

DEFINE_KERNEL(cpu_max_pool_2x2, .op = &op_MaxPool, FIRST, .supports = supports_forward, .run = pool_2x2_run_max);
DEFINE_KERNEL(cpu_max_pool_2x2_grad, .op = &op_MaxPoolGrad, FIRST, .supports = supports_backward,
              .run = pool_2x2_run_grad);
