/* vit: the vision transformer (Dosovitskiy et al. 2020), as torchvision has it; the default is its vit_b_16.
 *
 * An image is cut into patches, each of which becomes a token.  A class token in front of them collects what the head
 * reads.  As in torchvision, the head's weights begin as zeros, so the first scores are all 0. */
#include <inttypes.h>
#include <math.h>

#include "graph/networks/layers.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/view.gen.h"

enum { MLP = 4 /* the hidden layer of a block is as many times wider */ };
static const double EPSILON = 1e-6;

static Status check(const NetworkSizes *s)
{
    if (s->size % s->patch)
        return FAIL(E_INVALID, "--size %" PRId64 " is not divisible by --patch %" PRId64, s->size, s->patch);
    return net_check_heads(s);
}

/* The tokens of the image's patches [N, T, width]. */
static ValueId patches(Net *n, const NetworkSizes *s)
{
    const Distribution weight = net_normal(sqrt(1 / (double)(s->channels * s->patch * s->patch))),
                       bias = net_constant(0);
    ValueId x = net_conv(n, net_image(n, s), "conv_proj",
                         (ConvSize){ .out = s->width, .kernel = s->patch, .stride = s->patch, .bias = true },
                         (Init){ &weight, &bias });

    x = NODE(n, "", Reshape, NULL, x, INTS_OF(n, "", 0, s->width, -1));
    return NODE(n, "", Transpose, ATTRS(INTS("perm", 3, ((const int64_t[]){ 0, 2, 1 }))), x);
}

/* Puts a copy of the class token in front of each sample's tokens. */
static ValueId add_class_token(Net *n, ValueId x, int64_t width)
{
    ValueId token = net_param(n, "", "class_token", SHAPE(1, 1, width), net_constant(0)), shape;

    shape = NODE(n, "", Shape, ATTRS(INT("start", 0), INT("end", 1)), x);
    shape = NODE(n, "", Concat, ATTRS(INT("axis", 0)), shape, INTS_OF(n, "", 1, 1));
    token = NODE(n, "", Expand, NULL, token, shape);
    net_set_shape(n, token, SHAPE(NET_BATCH, 1, width));
    return NODE(n, "", Concat, ATTRS(INT("axis", 1)), token, x);
}

static ValueId self_attention(Net *n, ValueId x, const char *path, const NetworkSizes *s)
{
    const Distribution in = net_xavier_uniform(s->width, 3 * s->width), bias = net_constant(0);
    const ValueId w = net_param(n, path, "in_proj_weight", SHAPE(3 * s->width, s->width), in),
                  b = net_param(n, path, "in_proj_bias", SHAPE(3 * s->width), bias);

    x = NODE(n, path, MatMul, NULL, x,
             NODE(n, path, Transpose, ATTRS(INTS("perm", 2, ((const int64_t[]){ 1, 0 }))), w));
    x = NODE(n, path, Add, NULL, x, b);
    x = net_attention(n, x, path, s->heads, NO_VALUE, 0);
    return net_linear(n, x, net_path(n, "%s.out_proj", path), s->width, (Init){ .bias = &bias });
}

static ValueId encoder_layer(Net *n, ValueId x, const char *path, const NetworkSizes *s)
{
    const Distribution weight = net_xavier_uniform(s->width, MLP * s->width), bias = net_normal(1e-6);
    ValueId y;

    y = net_layer_norm(n, x, net_path(n, "%s.ln_1", path), EPSILON);
    y = self_attention(n, y, net_path(n, "%s.self_attention", path), s);
    y = net_dropout(n, y, net_path(n, "%s.dropout", path), s->dropout);
    x = NODE(n, path, Add, NULL, y, x);
    y = net_layer_norm(n, x, net_path(n, "%s.ln_2", path), EPSILON);
    y = net_linear(n, y, net_path(n, "%s.mlp.0", path), MLP * s->width, (Init){ &weight, &bias });
    y = net_gelu(n, y, net_path(n, "%s.mlp.1", path));
    y = net_dropout(n, y, net_path(n, "%s.mlp.2", path), s->dropout);
    y = net_linear(n, y, net_path(n, "%s.mlp.3", path), s->width, (Init){ &weight, &bias });
    y = net_dropout(n, y, net_path(n, "%s.mlp.4", path), s->dropout);
    return NODE(n, path, Add, NULL, x, y);
}

static void build(Net *n, const NetworkSizes *s)
{
    const Distribution zero = net_constant(0);
    ValueId x = add_class_token(n, patches(n, s), s->width), position;

    position = net_param(n, "encoder", "pos_embedding", SHAPE(1, net_dim(n, x, 1), s->width), net_normal(0.02));
    x = NODE(n, "encoder", Add, NULL, x, position);
    x = net_dropout(n, x, "encoder.dropout", s->dropout);
    for (int64_t i = 0; i < s->layers; i++)
        x = encoder_layer(n, x, net_path(n, "encoder.layers.encoder_layer_%d", (int)i), s);
    x = net_layer_norm(n, x, "encoder.ln", EPSILON);
    x = NODE(n, "", Gather, ATTRS(INT("axis", 1)), x, net_id(n, "", 0));
    net_scores(n, s, net_linear(n, x, "heads.head", s->classes, (Init){ &zero, &zero }));
}

DEFINE_NETWORK(vit, .help = "vision transformer, ViT-B/16 by default, for images", .data = "images:DIR",
               .takes = { [NETWORK_classes] = "1000",
                          [NETWORK_layers] = "12",
                          [NETWORK_width] = "768",
                          [NETWORK_heads] = "12",
                          [NETWORK_size] = "224",
                          [NETWORK_channels] = "3",
                          [NETWORK_patch] = "16",
                          [NETWORK_dropout] = "0" },
               .check = check, .build = build);
