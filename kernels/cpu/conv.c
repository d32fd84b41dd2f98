/* Convolution and its gradients by oneDNN, in float32.  What it does not do (empty tensors, absurd sizes) is left to
 * the reference kernels. */
#include "kernels/cpu/onednn.h"

static bool fits_roles(const Shape *x, const Shape *w, const Shape *y)
{
    const Shape *s[] = { x, w, y };

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < s[i]->rank; k++)
            if (s[i]->dim[k] < 1 || s[i]->dim[k] > INT32_MAX)
                return false;
    return true;
}

static const Shape *in_shape(const Graph *g, const Node *n, int i) { return &in_value(g, n, i)->shape; }

static bool supports_forward(const Graph *g, const Node *n)
{
    return fits_roles(in_shape(g, n, 0), in_shape(g, n, 1), &value(g, n->out[0])->shape);
}

static bool supports_input(const Graph *g, const Node *n)
{
    return !has_in(n, 2) && fits_roles(&value(g, n->out[0])->shape, in_shape(g, n, 1), in_shape(g, n, 0));
}

static bool supports_weight(const Graph *g, const Node *n)
{
    return fits_roles(in_shape(g, n, 0), &value(g, n->out[0])->shape, in_shape(g, n, 1));
}

static Status make(void **state, KernelCtx *ctx, const Node *n, OnednnConv what, const Shape *x, const Shape *w,
                   const Shape *y)
{
    OnednnConvShape s = { .batch = x->dim[0],
                          .group = node_int(n, "group"),
                          .in_channels = x->dim[1],
                          .out_channels = w->dim[0],
                          .bias = has_in(n, 2) };
    Onednn *d;
    Status st;

    window_read(&s.win, n, x, y, w->dim + 2);
    if ((st = onednn_conv(&d, ctx, what, &s)))
        return status_prefix(st, "%s %s", n->op->name, n->name);
    *state = d;
    return ST_OK;
}

static Status prepare_forward(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return make(state, ctx, n, ONEDNN_CONV_FORWARD, in_shape(g, n, 0), in_shape(g, n, 1), &value(g, n->out[0])->shape);
}

static Status prepare_input(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return make(state, ctx, n, ONEDNN_CONV_INPUT, &value(g, n->out[0])->shape, in_shape(g, n, 1), in_shape(g, n, 0));
}

static Status prepare_weight(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    return make(state, ctx, n, ONEDNN_CONV_WEIGHT, in_shape(g, n, 0), &value(g, n->out[0])->shape, in_shape(g, n, 1));
}

static Status run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return onednn_conv_run(state, ctx, in[0].data, in[1].data, NULL, out[0].data);
}

static Status run_forward_bias(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return onednn_conv_run(state, ctx, in[0].data, in[1].data, in[2].data, out[0].data);
}

static Status run_input(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return onednn_conv_run(state, ctx, out[0].data, in[1].data, NULL, in[0].data);
}

static Status run_weight(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    return onednn_conv_run(state, ctx, in[0].data, out[0].data, NULL, in[1].data);
}

static void release(void *state) { onednn_free(state); }

static bool without_bias(const Graph *g, const Node *n) { return !has_in(n, 2) && supports_forward(g, n); }

static bool with_bias(const Graph *g, const Node *n) { return has_in(n, 2) && supports_forward(g, n); }

#define F32 .dtypes = DTYPE_BIT(DT_FLOAT32), .release = release

DEFINE_KERNEL(cpu_conv, .op = &op_Conv, F32, .supports = without_bias, .prepare = prepare_forward, .run = run_forward);
DEFINE_KERNEL(cpu_conv_bias, .op = &op_Conv, F32, .supports = with_bias, .prepare = prepare_forward,
              .run = run_forward_bias);
DEFINE_KERNEL(cpu_conv_grad_input, .op = &op_ConvGradInput, F32, .supports = supports_input, .prepare = prepare_input,
              .run = run_input);
DEFINE_KERNEL(cpu_conv_grad_weight, .op = &op_ConvGradWeight, F32, .supports = supports_weight,
              .prepare = prepare_weight, .run = run_weight);
DEFINE_KERNEL(cpu_conv_transpose, .op = &op_ConvTranspose, F32, .supports = supports_input, .prepare = prepare_input,
              .run = run_input);
