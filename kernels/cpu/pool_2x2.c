/* Maxima over 2 x 2 windows that lie side by side: the pooling of most image models.  Every input element belongs to
 * one window at most, so the backward pass writes all of dx once and needs to remember no places. */
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "graph/ops/pool.gen.h"
#include "kernels/cpu/team.h"

typedef struct {
    int64_t planes, in_h, in_w, out_h, out_w;
    int team;
} Plan;

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

static Status pool_2x2_make_plan(void **state, KernelCtx *ctx, const Shape *x, const Shape *y)
{
    Plan p = {
        x->dim[0] * x->dim[1], x->dim[2], x->dim[3], y->dim[2], y->dim[3], team_size(ctx->n_threads, shape_numel(x))
    };
    return kernel_state(state, &p, sizeof p);
}

static Status pool_2x2_prepare_forward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return pool_2x2_make_plan(state, ctx, in_value(g, n, 0)->shape, value(g, n->out[0])->shape);
}

static Status pool_2x2_prepare_backward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return pool_2x2_make_plan(state, ctx, value(g, n->out[0])->shape, in_value(g, n, 0)->shape);
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
    const Plan *p = state;

    (void)ctx;
#pragma omp parallel for num_threads(p->team) schedule(static)
    for (int64_t c = 0; c < p->planes; c++) {
        const float *x = (const float *)in[0].data + c * p->in_h * p->in_w;
        float *y = (float *)out[0].data + c * p->out_h * p->out_w;

        for (int64_t i = 0; i < p->out_h; i++)
            max_row(x + 2 * i * p->in_w, p->in_w, y + i * p->out_w, p->out_w);
    }
    return ST_OK;
}

/* dx of one plane. */
static void grad_plane(const Plan *p, const float *dy, const float *x, float *dx)
{
    for (int64_t i = 0; i < p->out_h; i++) {
        int64_t at = 2 * i * p->in_w;

        grad_row(x + at, p->in_w, dy + i * p->out_w, dx + at, p->out_w);
        if (p->in_w % 2)
            dx[at + p->in_w - 1] = dx[at + 2 * p->in_w - 1] = 0;
    }
    if (p->in_h % 2)
        memset(dx + (p->in_h - 1) * p->in_w, 0, (size_t)p->in_w * sizeof *dx);
}

static Status pool_2x2_run_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;

    (void)ctx;
#pragma omp parallel for num_threads(p->team) schedule(static)
    for (int64_t c = 0; c < p->planes; c++)
        grad_plane(p, (const float *)in[0].data + c * p->out_h * p->out_w,
                   (const float *)in[1].data + c * p->in_h * p->in_w, (float *)out[0].data + c * p->in_h * p->in_w);
    return ST_OK;
}

/* Before the kernels for any window. */
#define FIRST .dtypes = DTYPE_BIT(DT_FLOAT32), .rank = -1, .release = free

DEFINE_KERNEL(cpu_max_pool_2x2, .op = &op_MaxPool, FIRST, .supports = supports_forward,
              .prepare = pool_2x2_prepare_forward, .run = pool_2x2_run_max);
DEFINE_KERNEL(cpu_max_pool_2x2_grad, .op = &op_MaxPoolGrad, FIRST, .supports = supports_backward,
              .prepare = pool_2x2_prepare_backward, .run = pool_2x2_run_grad);
