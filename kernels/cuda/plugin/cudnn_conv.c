/* Convolution and its two gradients as cuDNN graphs: one operation, forward with pointwise operations after it.
 *
 * These are conv + Z + bias, then Relu, in this order: for all of it cuDNN then has the engines that it has for conv +
 * bias, of every type, in both layouts, none of them compiled at run time.  With the bias before Z, or without one,
 * there are only such that are.  They do not say what their Relu makes of a NaN, and an exact one, written as a
 * comparison and a choice, has no engine; so they are tried (cudnn_probe.c).
 *
 * cuDNN knows no convolution of one spatial axis: it is one of two, the first of size 1.
 *
 * The gradient by the weights is of the type of x and dy, though what reads it wants float32.  cuDNN 9.19 offers no
 * engine that writes float32 from 16 bits.  With a conversion behind it engines are compiled at run time: by rows
 * hardly ever, not for groups, not for a first layer's 3 channels; and those for compute capability 9.0 and 10.0 do not
 * divide the sum over batch and positions, so that a few blocks would do what the engines taken here spread over the
 * device. */
#include <stdio.h>

#include "kernels/cuda/plugin/cudnn.h"

enum { PREFERRED_WORKSPACE = 256 << 20 };

/* X, W, Y and the convolution, with at least two spatial axes. */
typedef struct {
    CudnnTensor x, w, y, bias;
    cudnnDataType_t type, sum; /* of tensors; of accumulation */
    int n_spatial;
    int64_t stride[GPU_SPATIAL], dilation[GPU_SPATIAL], before[GPU_SPATIAL], after[GPU_SPATIAL];
} Conv;

static void set_dims(CudnnTensor *t, const Conv *c, int64_t first, int64_t second, const int64_t *spatial, int missing,
                     bool channels_last)
{
    *t = (CudnnTensor){ c->type, 2 + c->n_spatial, { first, second, 1, 1, 1 }, { 0 } };
    for (int i = missing; i < c->n_spatial; i++)
        t->dim[2 + i] = spatial[i - missing];
    cudnn_strides(t, channels_last);
}

static Conv read_conv(const GpuConv *g)
{
    static const int64_t one[GPU_SPATIAL] = { 1, 1, 1 };
    int missing = g->n_spatial == 1;
    Conv c = { .type = cudnn_type(g->dtype), .n_spatial = g->n_spatial + missing, .stride = { 1 }, .dilation = { 1 } };

    c.sum = g->dtype == DT_FLOAT64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    for (int i = missing; i < c.n_spatial; i++) {
        c.stride[i] = g->stride[i - missing];
        c.dilation[i] = g->dilation[i - missing];
        c.before[i] = g->pad_before[i - missing];
        c.after[i] = g->pad_after[i - missing];
    }
    set_dims(&c.x, &c, g->n, g->c, g->in, missing, g->channels_last);
    set_dims(&c.w, &c, g->k, g->c / g->group, g->kernel, missing, g->channels_last);
    set_dims(&c.y, &c, g->n, g->k, g->out, missing, g->channels_last);
    set_dims(&c.bias, &c, 1, g->k, one, missing, g->channels_last);
    return c;
}

static CudnnDescriptor convolution(CudnnGraph *g, const Conv *c)
{
    CudnnDescriptor d = CUDNN_NEW(g, CONVOLUTION);
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t n = c->n_spatial;

    CUDNN_SET(g, d, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &c->sum);
    CUDNN_SET(g, d, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
    CUDNN_SET(g, d, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &n);
    CUDNN_SET(g, d, CONVOLUTION_FILTER_STRIDES, INT64, n, c->stride);
    CUDNN_SET(g, d, CONVOLUTION_DILATIONS, INT64, n, c->dilation);
    CUDNN_SET(g, d, CONVOLUTION_PRE_PADDINGS, INT64, n, c->before);
    CUDNN_SET(g, d, CONVOLUTION_POST_PADDINGS, INT64, n, c->after);
    return cudnn_finalize(g, d, "a convolution");
}

/* alpha and beta have the type of accumulation. */
#define SCALES(g, op, NAME, c)                                  \
    do {                                                        \
        const double alpha = 1, beta = 0;                       \
        const float alpha_f = 1, beta_f = 0;                    \
        if ((c)->sum == CUDNN_DATA_DOUBLE) {                    \
            CUDNN_SET(g, op, NAME##_ALPHA, DOUBLE, 1, &alpha);  \
            CUDNN_SET(g, op, NAME##_BETA, DOUBLE, 1, &beta);    \
        } else {                                                \
            CUDNN_SET(g, op, NAME##_ALPHA, FLOAT, 1, &alpha_f); \
            CUDNN_SET(g, op, NAME##_BETA, FLOAT, 1, &beta_f);   \
        }                                                       \
    } while (0)

static void add_forward(CudnnGraph *g, const Conv *c, CudnnDescriptor x, CudnnDescriptor w, CudnnDescriptor y)
{
    CudnnDescriptor how = convolution(g, c), op = CUDNN_NEW(g, OPERATION_CONVOLUTION_FORWARD);

    CUDNN_SET(g, op, OPERATION_CONVOLUTION_FORWARD_CONV_DESC, BACKEND_DESCRIPTOR, 1, &how);
    CUDNN_SET(g, op, OPERATION_CONVOLUTION_FORWARD_X, BACKEND_DESCRIPTOR, 1, &x);
    CUDNN_SET(g, op, OPERATION_CONVOLUTION_FORWARD_W, BACKEND_DESCRIPTOR, 1, &w);
    CUDNN_SET(g, op, OPERATION_CONVOLUTION_FORWARD_Y, BACKEND_DESCRIPTOR, 1, &y);
    SCALES(g, op, OPERATION_CONVOLUTION_FORWARD, c);
    cudnn_add_op(g, cudnn_finalize(g, op, "a convolution operation"));
}

/* mode(x, b), of the type of accumulation, for the next operation. */
static CudnnDescriptor between(CudnnGraph *g, const Conv *c, cudnnPointwiseMode_t mode, CudnnDescriptor x,
                               CudnnDescriptor b)
{
    CudnnTensor t = c->y;
    CudnnDescriptor y;

    t.type = c->sum;
    y = cudnn_virtual(g, &t);
    cudnn_pointwise(g, mode, c->sum, x, b, NULL, y);
    return y;
}

/* Y = relu(conv(X, W) + Z + bias), or without Relu, or without both. */
static void cudnn_conv_forward(CudnnGraph *g, const Conv *c, const GpuConv *desc)
{
    CudnnTensor sum = c->y;
    CudnnDescriptor x = cudnn_tensor(g, &c->x, CONV_X), w = cudnn_tensor(g, &c->w, CONV_W),
                    y = cudnn_tensor(g, &c->y, CONV_Y), at, bias;

    if (!desc->bias) {
        add_forward(g, c, x, w, y);
        return;
    }
    sum.type = c->sum;
    at = cudnn_virtual(g, &sum);
    add_forward(g, c, x, w, at);
    if (desc->add)
        at = between(g, c, CUDNN_POINTWISE_ADD, at, cudnn_tensor(g, &c->y, CONV_Z));
    bias = cudnn_tensor(g, &c->bias, CONV_BIAS);
    if (desc->relu)
        cudnn_pointwise(g, CUDNN_POINTWISE_RELU_FWD, c->sum, between(g, c, CUDNN_POINTWISE_ADD, at, bias), NULL, NULL,
                        y);
    else
        cudnn_pointwise(g, CUDNN_POINTWISE_ADD, c->sum, at, bias, NULL, y);
}

static void grad_input(CudnnGraph *g, const Conv *c)
{
    CudnnDescriptor w = cudnn_tensor(g, &c->w, CONV_W), dy = cudnn_tensor(g, &c->y, CONV_Y),
                    dx = cudnn_tensor(g, &c->x, CONV_X);
    CudnnDescriptor how = convolution(g, c), op = CUDNN_NEW(g, OPERATION_CONVOLUTION_BACKWARD_DATA);

    CUDNN_SET(g, op, OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, BACKEND_DESCRIPTOR, 1, &how);
    CUDNN_SET(g, op, OPERATION_CONVOLUTION_BWD_DATA_W, BACKEND_DESCRIPTOR, 1, &w);
    CUDNN_SET(g, op, OPERATION_CONVOLUTION_BWD_DATA_DY, BACKEND_DESCRIPTOR, 1, &dy);
    CUDNN_SET(g, op, OPERATION_CONVOLUTION_BWD_DATA_DX, BACKEND_DESCRIPTOR, 1, &dx);
    SCALES(g, op, OPERATION_CONVOLUTION_BWD_DATA, c);
    cudnn_add_op(g, cudnn_finalize(g, op, "a gradient by the input"));
}

static void grad_weight(CudnnGraph *g, const Conv *c)
{
    CudnnDescriptor x = cudnn_tensor(g, &c->x, CONV_X), dy = cudnn_tensor(g, &c->y, CONV_Y),
                    dw = cudnn_tensor(g, &c->w, CONV_W);
    CudnnDescriptor how = convolution(g, c), op = CUDNN_NEW(g, OPERATION_CONVOLUTION_BACKWARD_FILTER);

    CUDNN_SET(g, op, OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, BACKEND_DESCRIPTOR, 1, &how);
    CUDNN_SET(g, op, OPERATION_CONVOLUTION_BWD_FILTER_X, BACKEND_DESCRIPTOR, 1, &x);
    CUDNN_SET(g, op, OPERATION_CONVOLUTION_BWD_FILTER_DY, BACKEND_DESCRIPTOR, 1, &dy);
    CUDNN_SET(g, op, OPERATION_CONVOLUTION_BWD_FILTER_DW, BACKEND_DESCRIPTOR, 1, &dw);
    SCALES(g, op, OPERATION_CONVOLUTION_BWD_FILTER, c);
    cudnn_add_op(g, cudnn_finalize(g, op, "a gradient by the weights"));
}

static int cudnn_conv_list(char *at, size_t size, const char *name, int n, const int64_t *v)
{
    int len = snprintf(at, size, " %s", name);

    for (int i = 0; i < n; i++)
        len += snprintf(at + len, size - (size_t)len, "%c%lld", i ? 'x' : ' ', (long long)v[i]);
    return len;
}

enum { KEY = 768 }; /* more than four numbers and six lists of three, of 20 digits each, and their names */

/* The numbers of the call. */
static void write_key(char key[KEY], const GpuConv *g)
{
    static const char *const kind[] = { "convolution", "convolution gradient by the input",
                                        "convolution gradient by the weights" };
    const struct {
        const char *name;
        const int64_t *v;
    } lists[] = {
        { "in", g->in },           { "kernel", g->kernel }, { "stride", g->stride }, { "dilation", g->dilation },
        { "pads", g->pad_before }, { "to", g->pad_after },
    };
    int n = snprintf(key, KEY, "%s%s%s%s %s %s n %lld c %lld k %lld group %lld", kind[g->kind], g->add ? " + z" : "",
                     g->bias ? " + bias" : "", g->relu ? " + relu" : "", dtype_name(g->dtype),
                     g->channels_last ? "nhwc" : "nchw", (long long)g->n, (long long)g->c, (long long)g->k,
                     (long long)g->group);

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        n += cudnn_conv_list(key + n, KEY - (size_t)n, lists[i].name, g->n_spatial, lists[i].v);
}

Status conv_plan(GpuDevice *d, const GpuConv *desc, GpuPlan **out, size_t *workspace)
{
    CudnnGraph g = { .status = ST_OK };
    Conv c = read_conv(desc);
    char key[KEY];
    CudnnRequest r = { .key = key,
                       .dtype = desc->dtype,
                       .workspace = PREFERRED_WORKSPACE,
                       .keeps_nan = desc->relu,
                       .nan_in = CONV_BIAS,
                       .nan_out = CONV_Y };
    Status st;

    if (conv_nonsense(desc))
        return FAIL(E_INVALID, "%s: a convolution of kind %d with bias %d, Z %d, Relu %d", d->label, (int)desc->kind,
                    desc->bias, desc->add, desc->relu);
    write_key(key, desc);
    if (desc->kind == CONV_FORWARD)
        cudnn_conv_forward(&g, &c, desc);
    else if (desc->kind == CONV_GRAD_INPUT)
        grad_input(&g, &c);
    else
        grad_weight(&g, &c);
    st = cudnn_plan_make(d, &g, &r, out, workspace);
    cudnn_graph_free(&g);
    return st;
}
