/* Convolution and its gradients as prepared calls of the library: bias in the call, sums in float32 (float64).
 *
 * Tensors stand in their roles x, w, y whatever the operator: ConvGradInput and ConvTranspose read y and w and give x.
 * Tensors are all stored by rows or all channels last.  Empty tensors and absurd sizes are left to the host. */
#include <stdlib.h>

#include "graph/ops/window.h"
#include "kernels/cuda/cuda.h"

typedef struct { const CudaDriver *driver; GpuPlan *plan; } State;
typedef struct { const Shape *x, *w, *y; } Roles;

static Roles roles(const Graph *g, const Node *n)
{
    const Shape *a = &in_value(g, n, 0)->shape, *b = &in_value(g, n, 1)->shape, *out = &value(g, n->out[0])->shape;

    if (n->op == &op_ConvGradWeight)
        return (Roles){ .x = a, .w = out, .y = b };
    return n->op == &op_Conv ? (Roles){ .x = a, .w = b, .y = out } : (Roles){ .x = out, .w = b, .y = a };
}

static bool sizes_fit(const Shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 1 || s->dim[i] > INT32_MAX)
            return false;
    return true;
}

/* The library adds no bias to a gradient; such a ConvTranspose is lowered before kernels are chosen. */
static bool fits(const Graph *g, const Node *n)
{
    Roles r = roles(g, n);

    return (n->op == &op_Conv || !has_in(n, 2)) && sizes_fit(r.x) && sizes_fit(r.w) && sizes_fit(r.y);
}

/* What is not marked channels last then has the same order in both layouts. */
static bool is_channels_last(const Graph *g, const Node *n)
{
    return in_value(g, n, 0)->layout == LAYOUT_CHANNELS_LAST || in_value(g, n, 1)->layout == LAYOUT_CHANNELS_LAST ||
           value(g, n->out[0])->layout == LAYOUT_CHANNELS_LAST;
}

static void describe(GpuConv *c, const Graph *g, const Node *n)
{
    Roles r = roles(g, n);
    Window w;
    int first;

    window_read(&w, n, r.x, r.y, r.w->dim + 2);
    first = WINDOW_AXES - w.rank;
    *c = (GpuConv){ .kind = n->op == &op_Conv ? CONV_FORWARD : n->op == &op_ConvGradWeight ? CONV_GRAD_WEIGHT : CONV_GRAD_INPUT,
                    .dtype = in_value(g, n, 0)->dtype, .channels_last = is_channels_last(g, n), .n_spatial = w.rank,
                    .n = r.x->dim[0], .c = r.x->dim[1], .k = r.y->dim[1], .group = node_int(n, "group"), .bias = has_in(n, 2) };
    for (int i = 0; i < w.rank; i++) {
        c->in[i] = w.in[first + i];
        c->kernel[i] = w.kernel[first + i];
        c->out[i] = w.out[first + i];
        c->stride[i] = w.stride[first + i];
        c->dilation[i] = w.dilation[first + i];
        c->pad_before[i] = w.pad[first + i];
        c->pad_after[i] = w.pad_end[first + i];
    }
}

static void release(void *state)
{
    State *s = state;

    s->driver->plan_free(s->plan);
    free(s);
}

static Status prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    State *s = calloc(1, sizeof *s);
    size_t workspace;
    GpuConv c;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->driver = cuda_driver(ctx);
    describe(&c, g, n);
    if ((st = cuda_check(ctx, s->driver->conv(ctx->gpu, &c, &s->plan, &workspace)))) {
        free(s);
        return status_prefix(st, "%s", node_text(g, n));
    }
    ctx->scratch_bytes = workspace > ctx->scratch_bytes ? workspace : ctx->scratch_bytes;
    *state = s;
    return ST_OK;
}

static Status run_plan(KernelCtx *ctx, void *state, void *const buffers[CONV_BUFFERS])
{
    State *s = state;

    TRY_CUDA(ctx, plan_run(ctx->stream, s->plan, buffers, ctx->scratch));
    return ST_OK;
}

static Status run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    void *buffers[CONV_BUFFERS] = { [CONV_X] = in[0].data, [CONV_W] = in[1].data, [CONV_Y] = out[0].data };

    return run_plan(ctx, state, buffers);
}

static Status run_forward_bias(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    void *buffers[CONV_BUFFERS] = { [CONV_X] = in[0].data, [CONV_W] = in[1].data, [CONV_BIAS] = in[2].data, [CONV_Y] = out[0].data };

    return run_plan(ctx, state, buffers);
}

static Status run_input(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    void *buffers[CONV_BUFFERS] = { [CONV_X] = out[0].data, [CONV_W] = in[1].data, [CONV_Y] = in[0].data };

    return run_plan(ctx, state, buffers);
}

static Status run_weight(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    void *buffers[CONV_BUFFERS] = { [CONV_X] = in[0].data, [CONV_W] = out[0].data, [CONV_Y] = in[1].data };

    return run_plan(ctx, state, buffers);
}

static bool without_bias(const Graph *g, const Node *n)
{
    return !has_in(n, 2) && fits(g, n);
}

static bool with_bias(const Graph *g, const Node *n)
{
    return has_in(n, 2) && fits(g, n);
}

#define CONVOLUTION .dtypes = DTYPES_FLOAT, .channels_last = true, .prepare = prepare, .release = release

DEFINE_KERNEL(cuda_conv, .op = &op_Conv, CONVOLUTION, .supports = without_bias, .run = run_forward);
DEFINE_KERNEL(cuda_conv_bias, .op = &op_Conv, CONVOLUTION, .supports = with_bias, .run = run_forward_bias);
DEFINE_KERNEL(cuda_conv_grad_input, .op = &op_ConvGradInput, CONVOLUTION, .supports = fits, .run = run_input);
DEFINE_KERNEL(cuda_conv_grad_weight, .op = &op_ConvGradWeight, CONVOLUTION, .supports = fits, .run = run_weight);
DEFINE_KERNEL(cuda_conv_transpose, .op = &op_ConvTranspose, CONVOLUTION, .supports = fits, .run = run_input);
