/* mobilenet: MobileNetV2 (Sandler et al. 2018), as torchvision has it: inverted residuals with depthwise convolutions.
 *
 * --width N, the channels of the first convolution, is torchvision's width_mult N / 32: all other numbers of channels
 * scale with it and are rounded to multiples of 8. */
#include "graph/networks/layers.h"
#include "graph/ops/binary.gen.h"

enum { WIDTH = 32, LAST = 1280 };

/* Rounds to a multiple of 8, and not down by more than a tenth. */
static int64_t scaled(int64_t channels, int64_t width)
{
    const double exact = (double)channels * (double)width / WIDTH;
    int64_t c = (int64_t)(exact + 4) / 8 * 8;

    c = c < 8 ? 8 : c;
    return (double)c < 0.9 * exact ? c + 8 : c;
}

/* The convolution `conv` and batch-norm `bn`. */
static ValueId conv_bn(Net *n, ValueId x, const char *conv, const char *bn, ConvSize c)
{
    const Distribution weight = net_kaiming_normal(c.out / (c.groups ? c.groups : 1) * c.kernel * c.kernel);

    c.pad = c.kernel / 2;
    return net_batch_norm(n, net_conv(n, x, conv, c, (Init){ .weight = &weight }), bn);
}

/* PATH.0, PATH.1 and PATH.2: convolution, batch-norm, Relu6. */
static ValueId conv_bn_relu6(Net *n, ValueId x, const char *path, ConvSize c)
{
    x = conv_bn(n, x, net_path(n, "%s.0", path), net_path(n, "%s.1", path), c);
    return net_relu6(n, x, net_path(n, "%s.2", path));
}

/* Expands the channels, filters each of them, projects them to `out`. */
static ValueId inverted_residual(Net *n, ValueId x, const char *path, int64_t out, int64_t stride, int64_t expand)
{
    const int64_t in = net_dim(n, x, 1), inner = in * expand;
    ValueId y = x;
    int at = 0; /* in the list PATH.conv */

    if (expand != 1)
        y = conv_bn_relu6(n, y, net_path(n, "%s.conv.%d", path, at++), (ConvSize){ .out = inner, .kernel = 1 });
    y = conv_bn_relu6(n, y, net_path(n, "%s.conv.%d", path, at++),
                      (ConvSize){ .out = inner, .kernel = 3, .stride = stride, .groups = inner });
    y = conv_bn(n, y, net_path(n, "%s.conv.%d", path, at), net_path(n, "%s.conv.%d", path, at + 1),
                (ConvSize){ .out = out, .kernel = 1 });
    return stride == 1 && in == out ? NODE(n, path, Add, NULL, x, y) : y;
}

static void build(Net *n, const NetworkSizes *s)
{
    static const struct {
        int expand, channels, blocks, stride;
    } stages[] = { { 1, 16, 1, 1 }, { 6, 24, 2, 2 },  { 6, 32, 3, 2 }, { 6, 64, 4, 2 },
                   { 6, 96, 3, 1 }, { 6, 160, 3, 2 }, { 6, 320, 1, 1 } };
    const Distribution weight = net_normal(0.01), bias = net_constant(0);
    ValueId x = net_image(n, s);
    int at = 0; /* in the list `features` */

    x = conv_bn_relu6(n, x, net_path(n, "features.%d", at++),
                      (ConvSize){ .out = scaled(WIDTH, s->width), .kernel = 3, .stride = 2 });
    for (size_t k = 0; k < sizeof stages / sizeof *stages; k++)
        for (int i = 0; i < stages[k].blocks; i++)
            x = inverted_residual(n, x, net_path(n, "features.%d", at++), scaled(stages[k].channels, s->width),
                                  i ? 1 : stages[k].stride, stages[k].expand);
    x = conv_bn_relu6(n, x, net_path(n, "features.%d", at),
                      (ConvSize){ .out = s->width > WIDTH ? scaled(LAST, s->width) : LAST, .kernel = 1 });
    x = net_global_pool(n, x, "avgpool");
    x = net_dropout(n, x, "classifier.0", s->dropout);
    net_scores(n, s, net_linear(n, x, "classifier.1", s->classes, (Init){ &weight, &bias }));
}

DEFINE_NETWORK(mobilenet, .help = "MobileNetV2, for images on small machines", .data = "images:DIR",
               .takes = { [NETWORK_classes] = "1000",
                          [NETWORK_width] = "32",
                          [NETWORK_size] = "224",
                          [NETWORK_channels] = "3",
                          [NETWORK_dropout] = "0.2" },
               .build = build);
