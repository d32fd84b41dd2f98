/* Layers of networks, named and initialised as PyTorch's modules are.
 *
 * `path` is a module's path in PyTorch, "layer1.0.conv1": its tensors are PATH.weight, PATH.bias and so on, as in a
 * state_dict, and its nodes are named as PyTorch's exporter names them, /layer1/layer1.0/conv1/Conv.  Failure is sticky
 * in net->g->status, as for emit: after a failure layers return NO_VALUE and do nothing. */
#ifndef DPX_NETWORKS_LAYERS_H
#define DPX_NETWORKS_LAYERS_H

#include "graph/ir/emit.h"
#include "graph/networks/network.h"
#include "graph/tensor/draw.h"

typedef struct Net {
    Graph *g;
    uint64_t seed;
    bool counts;        /* parameters are counted, and have no data */
    int64_t parameters; /* so far */
    int tensors;
    char input[NETWORK_VALUE_TEXT], output[NETWORK_VALUE_TEXT];
    int64_t block; /* tokens that it reads at most, for the file's metadata; 0: it has no limit */
} Net;

/* A path, printf's way: net_path(n, "layer%d.%d", 1, 0). */
const char *net_path(Net *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- inputs and outputs ---- */
/* Adds an input.  symbol: names of open axes, NULL for fixed ones.  Sizes of open axes only serve inference. */
ValueId net_input(Net *n, const char *name, DType dtype, Shape s, const char *const symbol[MAX_RANK]);
/* Adds an output of the shape of v, whose open axes are those that have a symbol. */
void net_output(Net *n, const char *name, ValueId v, const char *const symbol[MAX_RANK]);
/* An image [N, channels, size, size]. */
ValueId net_image(Net *n, const NetworkSizes *s);
/* Adds the output [N, ...] that a Linear or convolution has made: `logits` of classes, else `y`. */
void net_scores(Net *n, const NetworkSizes *s, ValueId v);
enum { NET_BATCH = 2 }; /* size of the batch's axis in inference */

/* ---- initial values ---- */
Distribution net_constant(double v);
Distribution net_uniform(double bound);
Distribution net_normal(double deviation);
Distribution net_kaiming_normal(int64_t fan);             /* deviation sqrt(2 / fan), for layers in front of a Relu */
Distribution net_xavier_uniform(int64_t in, int64_t out); /* bound sqrt(6 / (in + out)) */
/* The default of PyTorch's Linear and convolutions: uniform in +-1/sqrt(fan_in). */
Distribution net_default(int64_t fan_in);
/* Values of weight and bias; NULL: the default of the PyTorch module. */
typedef struct {
    const Distribution *weight, *bias;
} Init;

/* ---- nodes ---- */
ValueId net_node(Net *n, const char *path, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in);
void net_multi(Net *n, const char *path, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in, int n_out,
               ValueId *out);
/* NODE(n, path, Add, NULL, a, b) */
#define NODE(n, path, Op, attrs, ...) \
    net_node((n), (path), &op_##Op, (attrs), EMIT_N(__VA_ARGS__), (const ValueId[]){ __VA_ARGS__ })
ValueId net_param(Net *n, const char *path, const char *name, Shape s, Distribution init);
ValueId net_number(Net *n, const char *path, double v);
ValueId net_ints(Net *n, const char *path, int count, const int64_t *v);
#define INTS_OF(n, path, ...) \
    net_ints((n), (path), (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]){ __VA_ARGS__ })
ValueId net_id(Net *n, const char *path, int64_t v); /* an int64 scalar */
/* Gives a value its shape where it depends on that of an input, which inference does not follow. */
void net_set_shape(Net *n, ValueId v, Shape s);
int64_t net_dim(const Net *n, ValueId v, int axis); /* from the end where it is negative; 1 after a failure */

/* ---- layers ---- */
/* x W^T + b over the last axis, W [out, in]. */
ValueId net_linear(Net *n, ValueId x, const char *path, int64_t out, Init init);
/* x W + b over the last axis, W [in, out], as GPT-2 stores it. */
ValueId net_conv1d(Net *n, ValueId x, const char *path, int64_t out, Init init);
typedef struct {
    int64_t out, kernel, stride, pad, groups; /* stride 0 and groups 0 are 1 */
    bool bias;
} ConvSize;
ValueId net_conv(Net *n, ValueId x, const char *path, ConvSize c, Init init);
/* Doubles height and width with a kernel of 2. */
ValueId net_conv_transpose(Net *n, ValueId x, const char *path, int64_t out);
ValueId net_batch_norm(Net *n, ValueId x, const char *path);
ValueId net_layer_norm(Net *n, ValueId x, const char *path, double eps);
ValueId net_max_pool(Net *n, ValueId x, const char *path, int64_t kernel, int64_t stride, int64_t pad);
ValueId net_global_pool(Net *n, ValueId x, const char *path); /* [N, C, H, W] to the means [N, C] */
ValueId net_embedding(Net *n, ValueId ids, const char *path, int64_t rows, int64_t width, Distribution init);
ValueId net_dropout(Net *n, ValueId x, const char *path, double p); /* x itself where p is 0 */
ValueId net_relu6(Net *n, ValueId x, const char *path);
ValueId net_gelu(Net *n, ValueId x, const char *path);      /* by erf */
ValueId net_gelu_tanh(Net *n, ValueId x, const char *path); /* GPT-2's approximation */
/* softmax(q k^T / sqrt(depth)) v for qkv [N, T, 3 * width], which holds q, k and v; the result is [N, T, width].
 * mask: [T, T], true where a query reads a key; NO_VALUE: it reads all. */
ValueId net_attention(Net *n, ValueId qkv, const char *path, int64_t heads, ValueId mask, double dropout);

/* ---- checks ---- */
Status net_check_heads(const NetworkSizes *s);   /* E_INVALID unless heads divide the width */
Status net_check_outputs(const NetworkSizes *s); /* E_INVALID unless one of classes and outputs is given */

#endif
