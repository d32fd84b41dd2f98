/* resnet18, resnet50: residual networks (He et al. 2015), as torchvision has them: a block of resnet50 has its stride
 * in the convolution of 3x3.  With the default sizes their state_dict is torchvision's. */
#include "graph/networks/layers.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"

/* Convolution PATH.convI and batch-norm PATH.bnI.  Weights are normal by the outputs of the convolution. */
static ValueId conv_bn(Net *n, ValueId x, const char *path, const char *conv, const char *bn, ConvSize c)
{
    const Distribution weight = net_kaiming_normal(c.out * c.kernel * c.kernel);
    const char *dot = *path ? "." : "";

    c.pad = c.kernel / 2;
    x = net_conv(n, x, net_path(n, "%s%s%s", path, dot, conv), c, (Init){ .weight = &weight });
    return net_batch_norm(n, x, net_path(n, "%s%s%s", path, dot, bn));
}

/* A block whose inner convolutions have `width` channels; a bottleneck's output has four times as many. */
static ValueId block(Net *n, ValueId x, const char *path, int64_t width, int64_t stride, bool bottleneck)
{
    const char *relu = net_path(n, "%s.relu", path);
    const int64_t out = bottleneck ? 4 * width : width, in = net_dim(n, x, 1);
    ValueId y;

    if (bottleneck) {
        y = NODE(n, relu, Relu, NULL, conv_bn(n, x, path, "conv1", "bn1", (ConvSize){ .out = width, .kernel = 1 }));
        y = conv_bn(n, y, path, "conv2", "bn2", (ConvSize){ .out = width, .kernel = 3, .stride = stride });
        y = NODE(n, relu, Relu, NULL, y);
        y = conv_bn(n, y, path, "conv3", "bn3", (ConvSize){ .out = out, .kernel = 1 });
    } else {
        y = conv_bn(n, x, path, "conv1", "bn1", (ConvSize){ .out = width, .kernel = 3, .stride = stride });
        y = NODE(n, relu, Relu, NULL, y);
        y = conv_bn(n, y, path, "conv2", "bn2", (ConvSize){ .out = width, .kernel = 3 });
    }
    if (in != out || stride != 1)
        x = conv_bn(n, x, path, "downsample.0", "downsample.1",
                    (ConvSize){ .out = out, .kernel = 1, .stride = stride });
    return NODE(n, relu, Relu, NULL, NODE(n, path, Add, NULL, y, x));
}

static void build(Net *n, const NetworkSizes *s, const int blocks[4], bool bottleneck)
{
    ValueId x = net_image(n, s);

    x = conv_bn(n, x, "", "conv1", "bn1", (ConvSize){ .out = s->width, .kernel = 7, .stride = 2 });
    x = NODE(n, "relu", Relu, NULL, x);
    x = net_max_pool(n, x, "maxpool", 3, 2, 1);
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++)
            x = block(n, x, net_path(n, "layer%d.%d", stage + 1, i), s->width << stage, stage && !i ? 2 : 1,
                      bottleneck);
    x = net_global_pool(n, x, "avgpool");
    net_scores(n, s, net_linear(n, x, "fc", s->classes, (Init){ NULL, NULL }));
}

static void build_18(Net *n, const NetworkSizes *s) { build(n, s, (const int[4]){ 2, 2, 2, 2 }, false); }
static void build_50(Net *n, const NetworkSizes *s) { build(n, s, (const int[4]){ 3, 4, 6, 3 }, true); }

DEFINE_NETWORK(
    resnet18, .help = "residual network of 18 layers, for images", .data = "images:DIR",
    .takes = { [NETWORK_classes] = "1000", [NETWORK_width] = "64", [NETWORK_size] = "224", [NETWORK_channels] = "3" },
    .build = build_18);
DEFINE_NETWORK(
    resnet50, .help = "residual network of 50 layers, for images", .data = "images:DIR",
    .takes = { [NETWORK_classes] = "1000", [NETWORK_width] = "64", [NETWORK_size] = "224", [NETWORK_channels] = "3" },
    .build = build_50);
