/* Convolution and its gradients by oneDNN, in float32.  The reference kernels take what
 * oneDNN does not: empty tensors and absurd sizes. */
#include <stdlib.h>

#include "graph/ops/conv.gen.h"
#include "graph/ops/conv.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/team.h"

static bool fits_roles(const Shape *x, const Shape *w, const Shape *y)
{
    const Shape *s[] = { x, w, y };

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < s[i]->rank; k++)
            if (s[i]->dim[k] < 1 || s[i]->dim[k] > INT32_MAX)
                return false;
    return true;
}

static const Shape *in_shape(const Graph *g, const Node *n, int i) { return in_value(g, n, i)->shape; }

static bool supports_forward(const Graph *g, const Node *n)
{
    return fits_roles(in_shape(g, n, 0), in_shape(g, n, 1), value(g, n->out[0])->shape);
}

static bool supports_input(const Graph *g, const Node *n)
{
    return !has_in(n, 2) && conv_reaches_all(g, n) &&
           fits_roles(value(g, n->out[0])->shape, in_shape(g, n, 1), in_shape(g, n, 0));
}

static bool supports_weight(const Graph *g, const Node *n)
{
    return fits_roles(in_shape(g, n, 0), value(g, n->out[0])->shape, in_shape(g, n, 1));
}

static Status cpu_conv_make(void **state, KernelCtx *ctx, const Node *n, OnednnConv what, const Value *x,
                            const Value *w, const Value *y)
{
    OnednnConvShape s = { .batch = x->shape->dim[0],
                          .group = node_int(n, "group"),
                          .in_channels = x->shape->dim[1],
                          .out_channels = w->shape->dim[0],
                          .bias = has_in(n, CONV_IN_BIAS),
                          .x = x->layout,
                          .y = y->layout };
    Onednn *d;
    Status st;

    window_read(&s.win, n, x->shape, y->shape, w->shape->dim + 2);
    if ((st = onednn_conv(&d, ctx, what, &s)))
        return status_prefix(st, "%s %s", n->op->name, n->name);
    *state = d;
    return ST_OK;
}

static Status cpu_conv_prepare_forward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return cpu_conv_make(state, ctx, n, ONEDNN_CONV_FORWARD, in_value(g, n, 0), in_value(g, n, 1), value(g, n->out[0]));
}

static Status cpu_conv_prepare_input(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return cpu_conv_make(state, ctx, n, ONEDNN_CONV_INPUT, value(g, n->out[0]), in_value(g, n, 1), in_value(g, n, 0));
}

static Status prepare_weight(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return cpu_conv_make(state, ctx, n, ONEDNN_CONV_WEIGHT, in_value(g, n, 0), value(g, n->out[0]), in_value(g, n, 1));
}

static Status cpu_conv_run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return onednn_conv_run(state, ctx, in[0].data, in[1].data, NULL, out[0].data);
}

static Status run_forward_bias(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return onednn_conv_run(state, ctx, in[0].data, in[1].data, in[2].data, out[0].data);
}

static Status cpu_conv_run_input(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return onednn_conv_run(state, ctx, out[0].data, in[1].data, NULL, in[0].data);
}

static Status run_weight(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return onednn_conv_run(state, ctx, in[0].data, out[0].data, NULL, in[1].data);
}

static void release(void *state) { onednn_free(state); }

static bool without_bias(const Graph *g, const Node *n) { return !has_in(n, CONV_IN_BIAS) && supports_forward(g, n); }

static bool with_bias(const Graph *g, const Node *n) { return has_in(n, CONV_IN_BIAS) && supports_forward(g, n); }

/* Data in any layout that oneDNN has, weights by rows. */
static bool cpu_conv_layouts(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const bool is_out = i >= n->n_in,
                   filter = (is_out ? n->op->filter_out : n->op->filter_in) >> (is_out ? i - n->n_in : i) & 1;
        const ValueId v = is_out ? n->out[i - n->n_in] : n->in[i];

        if (has_value(v) && (filter ? value(g, v)->layout != LAYOUT_ROWS : !onednn_stores(value(g, v)->layout)))
            return false;
    }
    return true;
}

#define F32 .dtypes = DTYPE_BIT(DT_FLOAT32), .release = release, .layouts = cpu_conv_layouts, .shares = true

DEFINE_KERNEL(cpu_conv, .op = &op_Conv, F32, .supports = without_bias, .prepare = cpu_conv_prepare_forward,
              .run = cpu_conv_run_forward);
DEFINE_KERNEL(cpu_conv_bias, .op = &op_Conv, F32, .supports = with_bias, .prepare = cpu_conv_prepare_forward,
              .run = run_forward_bias);
DEFINE_KERNEL(cpu_conv_grad_input, .op = &op_ConvGradInput, F32, .supports = supports_input,
              .prepare = cpu_conv_prepare_input, .run = cpu_conv_run_input);
DEFINE_KERNEL(cpu_conv_grad_weight, .op = &op_ConvGradWeight, F32, .supports = supports_weight,
              .prepare = prepare_weight, .run = run_weight);
DEFINE_KERNEL(cpu_conv_transpose, .op = &op_ConvTranspose, F32, .supports = supports_input,
              .prepare = cpu_conv_prepare_input, .run = cpu_conv_run_input);

/* ---- with Relu, and a sum in front of it ---- */

/* One pass over the result of the convolution, in the layout of both.  oneDNN's own Relu makes 0 of a NaN, which would
 * hide that a training has diverged. */
static void cpu_conv_finish(const KernelCtx *ctx, float *y, const float *z, int64_t n)
{
    const int team = team_size(ctx, n);

#pragma omp parallel for simd num_threads(team) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float v = z ? y[i] + z[i] : y[i];

        y[i] = v < 0 ? 0 : v;
    }
}

typedef struct {
    Onednn *conv;
    bool bias, added;
} ReluPlan;

static void release_relu(void *state)
{
    ReluPlan *p = state;

    onednn_free(p->conv);
    free(p);
}

static Status prepare_relu(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    ReluPlan *p = calloc(1, sizeof *p);
    void *conv = NULL;
    Status st;

    if (!p)
        return FAIL_NOMEM();
    if ((st = cpu_conv_prepare_forward(&conv, ctx, g, n))) {
        free(p);
        return st;
    }
    *p = (ReluPlan){ conv, has_in(n, CONV_IN_BIAS), has_in(n, CONV_IN_ADDED) };
    *state = p;
    return ST_OK;
}

static Status run_relu(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const ReluPlan *p = state;

    TRY(onednn_conv_run(p->conv, ctx, in[CONV_IN_X].data, in[CONV_IN_W].data, p->bias ? in[CONV_IN_BIAS].data : NULL,
                        out[0].data));
    cpu_conv_finish(ctx, out[0].data, p->added ? in[CONV_IN_ADDED].data : NULL, tensor_numel(&out[0]));
    return ST_OK;
}

static bool relu_layouts(const Graph *g, const Node *n)
{
    return cpu_conv_layouts(g, n) &&
           (!has_in(n, CONV_IN_ADDED) || in_value(g, n, CONV_IN_ADDED)->layout == value(g, n->out[0])->layout);
}

DEFINE_KERNEL(cpu_conv_relu, .op = &op_ConvRelu, .dtypes = DTYPE_BIT(DT_FLOAT32), .layouts = relu_layouts,
              .supports = supports_forward, .prepare = prepare_relu, .run = run_relu, .release = release_relu,
              .shares = true);
