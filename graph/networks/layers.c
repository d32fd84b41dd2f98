/* Layers of networks: each adds its tensors and the nodes that PyTorch's exporter writes for the module. */
#include "graph/networks/layers.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/ops/activation.gen.h"
#include "graph/ops/batchnorm.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/conv.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/pool.gen.h"
#include "graph/ops/random.gen.h"
#include "graph/ops/softmax.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

/* ---- names ---- */

/* Returns the text; NULL as text is a failure of the graph. */
static const char *or_fail(Net *n, const char *text)
{
    if (!text)
        graph_fail_nomem(n->g);
    return text;
}

const char *net_path(Net *n, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return or_fail(n, arena_strdup(n->g->arena, text));
}

/* The exporter's scope of a module: "layer1.0.conv1" becomes "/layer1/layer1.0/conv1", since the name of a number is
 * that of its list and the number. */
static void scope_of(char scope[512], const char *path)
{
    size_t len = 0, before = 0, before_len = 0; /* before: where the last name begins */

    while (*path && len + 2 * strlen(path) + 2 < 512) {
        const size_t c = strcspn(path, ".");
        const bool number = *path >= '0' && *path <= '9';

        scope[len++] = '/';
        if (number && before_len) {
            memcpy(scope + len, scope + before, before_len);
            scope[len + before_len] = '.';
            memcpy(scope + len + before_len + 1, path, c);
            before_len += 1 + c;
        } else {
            memcpy(scope + len, path, c);
            before_len = c;
        }
        before = len;
        len += before_len;
        path += c + (path[c] == '.');
    }
    scope[len] = '\0';
}

/* "/layer1/layer1.0/relu/Relu", with a number if an earlier node has that name. */
static const char *node_name(Net *n, const char *path, const char *op)
{
    char scope[512], out[600];

    scope_of(scope, path);
    for (int k = 0;; k++) {
        const char *name =
            k ? arena_printf(n->g->arena, "%s/%s_%d", scope, op, k) : arena_printf(n->g->arena, "%s/%s", scope, op);

        if (!name)
            return or_fail(n, NULL);
        snprintf(out, sizeof out, "%s_output_0", name);
        if (!has_value(graph_find(n->g, out)))
            return name;
    }
}

/* ---- nodes and tensors ---- */

void net_multi(Net *n, const char *path, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in, int n_out,
               ValueId *out)
{
    Graph *g = n->g;
    const char *name = g->status ? NULL : node_name(n, path, op->name), *names[4] = { NULL };
    Node *node;

    for (int i = 0; i < n_out && !g->status; i++)
        names[i] = or_fail(n, arena_printf(g->arena, "%s_output_%d", name, i));
    node = g->status ? NULL : graph_add_node(g, op, name, attrs, n_in, in, n_out, names);
    if (node && !(g->status = node_normalise(g, node)))
        g->status = node_infer(g, node);
    for (int i = 0; i < n_out; i++)
        out[i] = node && !g->status ? node->out[i] : NO_VALUE;
}

ValueId net_node(Net *n, const char *path, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in)
{
    ValueId out;

    net_multi(n, path, op, attrs, n_in, in, 1, &out);
    return out;
}

int64_t net_dim(const Net *n, ValueId v, int axis)
{
    const Shape *s = n->g->status ? NULL : value(n->g, v)->shape;

    return s ? s->dim[axis < 0 ? axis + s->rank : axis] : 1;
}

void net_set_shape(Net *n, ValueId v, Shape s)
{
    if (!n->g->status)
        value_set_shape(n->g, value(n->g, v), &s);
}

/* A constant of the file, whose numbers are drawn. */
static ValueId add_tensor(Net *n, const char *path, const char *name, Shape s, Distribution init, Evidence evidence)
{
    Graph *g = n->g;
    const char *full = g->status ? NULL : net_path(n, "%s%s%s", path, *path ? "." : "", name);
    Tensor *t;
    ValueId v;

    if (g->status || (g->status = shape_check(&s, sizeof(double))))
        return NO_VALUE;
    if (evidence == EVIDENCE_TRAINED) {
        n->parameters += shape_numel(&s);
        n->tensors++;
    }
    if (!(t = (n->counts ? tensor_zeros : tensor_create)(g->arena, DT_FLOAT32, &s))) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    if (!n->counts)
        tensor_draw(t, &init, n->seed, full);
    v = graph_add_const_nocopy(g, full, t);
    if (has_value(v)) {
        value(g, v)->origin = ORIGIN_INITIALIZER;
        value(g, v)->evidence = evidence;
    }
    return v;
}

ValueId net_param(Net *n, const char *path, const char *name, Shape s, Distribution init)
{
    return add_tensor(n, path, name, s, init, EVIDENCE_TRAINED);
}

/* A constant of the formula, named as the exporter names the output of a Constant node. */
static ValueId add_constant(Net *n, const char *path, DType dtype, Shape s, const int64_t *ints, double v)
{
    Graph *g = n->g;
    const char *name = g->status ? NULL : node_name(n, path, "Constant");
    Tensor *t = g->status ? NULL : tensor_create(g->arena, dtype, &s);
    ValueId c;

    if (g->status || !t) {
        if (!g->status)
            graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < tensor_numel(t); i++)
        ints ? tensor_set_int(t, i, ints[i]) : tensor_set_float(t, i, v);
    c = graph_add_const_nocopy(g, net_path(n, "%s_output_0", name), t);
    if (has_value(c))
        value(g, c)->evidence = dtype == DT_INT64 ? EVIDENCE_NONE : EVIDENCE_FIXED;
    return c;
}

ValueId net_number(Net *n, const char *path, double v)
{
    return add_constant(n, path, DT_FLOAT32, shape_scalar(), NULL, v);
}

ValueId net_ints(Net *n, const char *path, int count, const int64_t *v)
{
    return add_constant(n, path, DT_INT64, SHAPE(count), v, 0);
}

ValueId net_id(Net *n, const char *path, int64_t v) { return add_constant(n, path, DT_INT64, shape_scalar(), &v, 0); }

/* ---- inputs and outputs ---- */

/* "image [N,3,224,224]" */
static void describe(char text[NETWORK_VALUE_TEXT], const char *name, const Shape *s, const char *const *symbol)
{
    int len = snprintf(text, NETWORK_VALUE_TEXT, "%s [", name);

    for (int i = 0; i < s->rank && len < NETWORK_VALUE_TEXT; i++)
        len += symbol[i]
                   ? snprintf(text + len, (size_t)(NETWORK_VALUE_TEXT - len), "%s%s", i ? "," : "", symbol[i])
                   : snprintf(text + len, (size_t)(NETWORK_VALUE_TEXT - len), "%s%" PRId64, i ? "," : "", s->dim[i]);
    if (len < NETWORK_VALUE_TEXT)
        snprintf(text + len, (size_t)(NETWORK_VALUE_TEXT - len), "]");
}

ValueId net_input(Net *n, const char *name, DType dtype, Shape s, const char *const symbol[MAX_RANK])
{
    const ValueId v = graph_add_input(n->g, name, dtype, &s);
    const size_t len = strlen(n->input);
    char text[NETWORK_VALUE_TEXT];

    if (has_value(v))
        value(n->g, v)->dim_param = graph_copy_symbols(n->g, symbol);
    describe(text, name, &s, symbol);
    snprintf(n->input + len, sizeof n->input - len, "%s%s", len ? ", " : "", text);
    return v;
}

void net_output(Net *n, const char *name, ValueId v, const char *const symbol[MAX_RANK])
{
    if (n->g->status)
        return;
    value(n->g, v)->dim_param = graph_copy_symbols(n->g, symbol);
    graph_add_output(n->g, name, v);
    describe(n->output, name, value(n->g, v)->shape, symbol);
}

ValueId net_image(Net *n, const NetworkSizes *s)
{
    return net_input(n, "image", DT_FLOAT32, SHAPE(NET_BATCH, s->channels, s->size, s->size),
                     (const char *const[MAX_RANK]){ "N" });
}

void net_scores(Net *n, const NetworkSizes *s, ValueId v)
{
    net_output(n, s->classes ? "logits" : "y", v, (const char *const[MAX_RANK]){ "N" });
}

/* ---- initial values ---- */

Distribution net_constant(double v) { return (Distribution){ .kind = DRAW_CONSTANT, .mean = v }; }
Distribution net_uniform(double bound) { return (Distribution){ .kind = DRAW_UNIFORM, .spread = bound }; }
Distribution net_normal(double deviation) { return (Distribution){ .kind = DRAW_NORMAL, .spread = deviation }; }
Distribution net_kaiming_normal(int64_t fan) { return net_normal(sqrt(2.0 / (double)fan)); }
Distribution net_xavier_uniform(int64_t in, int64_t out) { return net_uniform(sqrt(6.0 / (double)(in + out))); }
Distribution net_default(int64_t fan_in) { return net_uniform(1 / sqrt((double)fan_in)); }

static Distribution or_default(const Distribution *given, int64_t fan_in)
{
    return given ? *given : net_default(fan_in);
}

/* ---- layers ---- */

ValueId net_linear(Net *n, ValueId x, const char *path, int64_t out, Init init)
{
    const int64_t in = net_dim(n, x, -1);
    const ValueId w = net_param(n, path, "weight", SHAPE(out, in), or_default(init.weight, in)),
                  b = net_param(n, path, "bias", SHAPE(out), or_default(init.bias, in));
    ValueId y;

    if (n->g->status)
        return NO_VALUE;
    if (value(n->g, x)->shape->rank == 2)
        return NODE(n, path, Gemm, ATTRS(INT("transB", 1)), x, w, b);
    y = NODE(n, path, Transpose, ATTRS(INTS("perm", 2, ((const int64_t[]){ 1, 0 }))), w);
    y = NODE(n, path, MatMul, NULL, x, y);
    return NODE(n, path, Add, NULL, y, b);
}

ValueId net_conv1d(Net *n, ValueId x, const char *path, int64_t out, Init init)
{
    const int64_t in = net_dim(n, x, -1);
    const ValueId w = net_param(n, path, "weight", SHAPE(in, out), or_default(init.weight, in)),
                  b = net_param(n, path, "bias", SHAPE(out), or_default(init.bias, in));

    return NODE(n, path, Add, NULL, NODE(n, path, MatMul, NULL, x, w), b);
}

ValueId net_conv(Net *n, ValueId x, const char *path, ConvSize c, Init init)
{
    const int64_t groups = c.groups ? c.groups : 1, in = net_dim(n, x, 1) / groups, stride = c.stride ? c.stride : 1;
    const int64_t kernel[] = { c.kernel, c.kernel }, pads[] = { c.pad, c.pad, c.pad, c.pad };
    const int64_t strides[] = { stride, stride }, fan_in = in * c.kernel * c.kernel;
    const ValueId w = net_param(n, path, "weight", SHAPE(c.out, in, c.kernel, c.kernel),
                                or_default(init.weight, fan_in)),
                  b = c.bias ? net_param(n, path, "bias", SHAPE(c.out), or_default(init.bias, fan_in)) : NO_VALUE;
    const Attr *attrs = ATTRS(INTS("kernel_shape", 2, kernel), INTS("strides", 2, strides), INTS("pads", 4, pads),
                              INTS("dilations", 2, ((const int64_t[]){ 1, 1 })), INT("group", groups));

    return net_node(n, path, &op_Conv, attrs, c.bias ? 3 : 2, (const ValueId[]){ x, w, b });
}

ValueId net_conv_transpose(Net *n, ValueId x, const char *path, int64_t out)
{
    const int64_t in = net_dim(n, x, 1), two[] = { 2, 2 }, fan_in = out * 4; /* PyTorch's fan_in of W [in, out, 2, 2] */
    const ValueId w = net_param(n, path, "weight", SHAPE(in, out, 2, 2), net_default(fan_in)),
                  b = net_param(n, path, "bias", SHAPE(out), net_default(fan_in));

    x = NODE(n, path, ConvTranspose, ATTRS(INTS("kernel_shape", 2, two), INTS("strides", 2, two)), x, w, b);
    if (!n->g->status) /* inference keeps the size of this batch, which ONNX has no attribute for */
        node_set_ints(n->g, value(n->g, x)->producer, "spatial", 0, NULL);
    return x;
}

ValueId net_batch_norm(Net *n, ValueId x, const char *path)
{
    const Shape s = SHAPE(net_dim(n, x, 1));
    const ValueId w = net_param(n, path, "weight", s, net_constant(1)),
                  b = net_param(n, path, "bias", s, net_constant(0)),
                  mean = add_tensor(n, path, "running_mean", s, net_constant(0), EVIDENCE_NONE),
                  var = add_tensor(n, path, "running_var", s, net_constant(1), EVIDENCE_NONE);

    return NODE(n, path, BatchNormalization, ATTRS(FLOAT("epsilon", 1e-5), FLOAT("momentum", 0.9)), x, w, b, mean, var);
}

ValueId net_layer_norm(Net *n, ValueId x, const char *path, double eps)
{
    const Shape s = SHAPE(net_dim(n, x, -1));
    const ValueId w = net_param(n, path, "weight", s, net_constant(1)),
                  b = net_param(n, path, "bias", s, net_constant(0));

    return NODE(n, path, LayerNormalization, ATTRS(INT("axis", -1), FLOAT("epsilon", eps)), x, w, b);
}

ValueId net_max_pool(Net *n, ValueId x, const char *path, int64_t kernel, int64_t stride, int64_t pad)
{
    const int64_t k[] = { kernel, kernel }, s[] = { stride, stride }, p[] = { pad, pad, pad, pad };

    return NODE(n, path, MaxPool, ATTRS(INTS("kernel_shape", 2, k), INTS("strides", 2, s), INTS("pads", 4, p)), x);
}

ValueId net_global_pool(Net *n, ValueId x, const char *path)
{
    x = NODE(n, path, GlobalAveragePool, NULL, x);
    return NODE(n, "", Flatten, ATTRS(INT("axis", 1)), x);
}

ValueId net_embedding(Net *n, ValueId ids, const char *path, int64_t rows, int64_t width, Distribution init)
{
    return NODE(n, path, Gather, ATTRS(INT("axis", 0)), net_param(n, path, "weight", SHAPE(rows, width), init), ids);
}

ValueId net_dropout(Net *n, ValueId x, const char *path, double p)
{
    return p > 0 ? NODE(n, path, Dropout, NULL, x, net_number(n, path, p)) : x;
}

ValueId net_relu6(Net *n, ValueId x, const char *path)
{
    const ValueId low = net_number(n, path, 0), high = net_number(n, path, 6);

    return NODE(n, path, Clip, NULL, x, low, high);
}

/* x (1 + erf(x / sqrt 2)) / 2 */
ValueId net_gelu(Net *n, ValueId x, const char *path)
{
    ValueId t = NODE(n, path, Div, NULL, x, net_number(n, path, sqrt(2)));

    t = NODE(n, path, Erf, NULL, t);
    t = NODE(n, path, Add, NULL, t, net_number(n, path, 1));
    t = NODE(n, path, Mul, NULL, x, t);
    return NODE(n, path, Mul, NULL, t, net_number(n, path, 0.5));
}

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
ValueId net_gelu_tanh(Net *n, ValueId x, const char *path)
{
    ValueId t = NODE(n, path, Mul, NULL, x, x);

    t = NODE(n, path, Mul, NULL, t, x);
    t = NODE(n, path, Mul, NULL, t, net_number(n, path, 0.044715));
    t = NODE(n, path, Add, NULL, x, t);
    t = NODE(n, path, Mul, NULL, t, net_number(n, path, sqrt(2 / 3.14159265358979323846)));
    t = NODE(n, path, Tanh, NULL, t);
    t = NODE(n, path, Add, NULL, t, net_number(n, path, 1));
    x = NODE(n, path, Mul, NULL, x, net_number(n, path, 0.5));
    return NODE(n, path, Mul, NULL, x, t);
}

/* [N, T, width] to [N, heads, T, depth], or for keys to [N, heads, depth, T]. */
static ValueId split_heads(Net *n, ValueId x, const char *path, int64_t heads, bool keys)
{
    const int64_t depth = net_dim(n, x, -1) / heads;
    const int64_t perm[] = { 0, 2, keys ? 3 : 1, keys ? 1 : 3 };

    x = NODE(n, path, Reshape, NULL, x, INTS_OF(n, path, 0, 0, heads, depth));
    return NODE(n, path, Transpose, ATTRS(INTS("perm", 4, perm)), x);
}

ValueId net_attention(Net *n, ValueId qkv, const char *path, int64_t heads, ValueId mask, double dropout)
{
    const int64_t width = net_dim(n, qkv, -1) / 3;
    const ValueId sizes = INTS_OF(n, path, width, width, width);
    ValueId part[3], q, k, v, p;

    net_multi(n, path, &op_Split, ATTRS(INT("axis", 2)), 2, (const ValueId[]){ qkv, sizes }, 3, part);
    q = split_heads(n, part[0], path, heads, false);
    k = split_heads(n, part[1], path, heads, true);
    v = split_heads(n, part[2], path, heads, false);
    p = NODE(n, path, MatMul, NULL, q, k);
    p = NODE(n, path, Mul, NULL, p, net_number(n, path, 1 / sqrt((double)width / (double)heads)));
    if (has_value(mask))
        p = NODE(n, path, Where, NULL, mask, p, net_number(n, path, -INFINITY));
    p = NODE(n, path, Softmax, ATTRS(INT("axis", -1)), p);
    p = net_dropout(n, p, path, dropout);
    p = NODE(n, path, MatMul, NULL, p, v);
    p = NODE(n, path, Transpose, ATTRS(INTS("perm", 4, ((const int64_t[]){ 0, 2, 1, 3 }))), p);
    return NODE(n, path, Reshape, NULL, p, INTS_OF(n, path, 0, 0, width));
}

/* ---- checks ---- */

Status net_check_heads(const NetworkSizes *s)
{
    return s->width % s->heads
               ? FAIL(E_INVALID, "--width %" PRId64 " is not divisible by --heads %" PRId64, s->width, s->heads)
               : ST_OK;
}

Status net_check_outputs(const NetworkSizes *s)
{
    if (!s->classes == !s->outputs)
        return FAIL(E_INVALID, "give --classes N for classification, or --outputs N for regression%s",
                    s->classes ? ", not both" : "");
    return ST_OK;
}
