/* unet: U-Net (Ronneberger et al. 2015) with batch-norm and padding, for segmentation: a score of each class for each
 * pixel.  Names are those of the widespread PyTorch version (milesial/Pytorch-UNet).
 *
 * Each level halves the image and doubles the channels; on the way up a level sees what the way down had at its size.
 */
#include <inttypes.h>

#include "graph/networks/layers.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/concat.gen.h"

enum { MOST_LEVELS = 8 };

static Status check(const NetworkSizes *s)
{
    if (s->layers > MOST_LEVELS)
        return FAIL(E_INVALID, "--layers: expected a whole number from 1 to %d, found '%" PRId64 "'", MOST_LEVELS,
                    s->layers);
    if (s->size % (INT64_C(1) << s->layers))
        return FAIL(E_INVALID, "--size %" PRId64 " is not divisible by %d, 2 to the power of --layers", s->size,
                    1 << s->layers);
    return ST_OK;
}

/* Two convolutions of 3x3 with batch-norm and Relu, PATH.double_conv. */
static ValueId double_conv(Net *n, ValueId x, const char *path, int64_t out)
{
    for (int i = 0; i < 6; i += 3) {
        x = net_conv(n, x, net_path(n, "%s.double_conv.%d", path, i), (ConvSize){ .out = out, .kernel = 3, .pad = 1 },
                     (Init){ NULL, NULL });
        x = net_batch_norm(n, x, net_path(n, "%s.double_conv.%d", path, i + 1));
        x = NODE(n, net_path(n, "%s.double_conv.%d", path, i + 2), Relu, NULL, x);
    }
    return x;
}

static void build(Net *n, const NetworkSizes *s)
{
    const int levels = (int)s->layers;
    ValueId at[MOST_LEVELS + 1], x = double_conv(n, net_image(n, s), "inc", s->width);

    for (int i = 1; i <= levels; i++) {
        at[i - 1] = x;
        x = net_max_pool(n, x, net_path(n, "down%d.maxpool_conv.0", i), 2, 2, 0);
        x = double_conv(n, x, net_path(n, "down%d.maxpool_conv.1", i), s->width << i);
    }
    for (int i = 1; i <= levels; i++) {
        const int64_t out = s->width << (levels - i);
        const char *path = net_path(n, "up%d", i);

        x = net_conv_transpose(n, x, net_path(n, "up%d.up", i), out);
        x = NODE(n, path, Concat, ATTRS(INT("axis", 1)), at[levels - i], x);
        x = double_conv(n, x, net_path(n, "up%d.conv", i), out);
    }
    x = net_dropout(n, x, "dropout", s->dropout);
    net_scores(
        n, s,
        net_conv(n, x, "outc.conv", (ConvSize){ .out = s->classes, .kernel = 1, .bias = true }, (Init){ NULL, NULL }));
}

DEFINE_NETWORK(unet, .help = "U-Net with batch-norm, for segmentation: classes of pixels",
               .data = "images:DIR,masks=DIR",
               .takes = { [NETWORK_classes] = "2",
                          [NETWORK_layers] = "4",
                          [NETWORK_width] = "64",
                          [NETWORK_size] = "256",
                          [NETWORK_channels] = "3",
                          [NETWORK_dropout] = "0" },
               .check = check, .build = build);
