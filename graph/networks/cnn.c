/* cnn: a small convolutional network in the form of VGG with batch-norm, for small images.
 *
 * Each level has two convolutions of 3x3 with batch-norm and Relu, and halves the image; the number of channels doubles
 * from level to level.  Their means over the image feed one Linear. */
#include <inttypes.h>

#include "graph/networks/layers.h"
#include "graph/ops/activation.gen.h"

enum { CONVOLUTIONS = 2, MOST_LEVELS = 12 };

static Status check(const NetworkSizes *s)
{
    if (s->layers > MOST_LEVELS || s->size >> s->layers < 1)
        return FAIL(E_INVALID,
                    "--size %" PRId64 " is too small for --layers %" PRId64 ", each of which halves the image", s->size,
                    s->layers);
    return ST_OK;
}

static void build(Net *n, const NetworkSizes *s)
{
    ValueId x = net_image(n, s);
    int at = 0; /* in the list `features` */

    for (int level = 0; level < s->layers; level++) {
        for (int i = 0; i < CONVOLUTIONS; i++) {
            x = net_conv(n, x, net_path(n, "features.%d", at++),
                         (ConvSize){ .out = s->width << level, .kernel = 3, .pad = 1 }, (Init){ NULL, NULL });
            x = net_batch_norm(n, x, net_path(n, "features.%d", at++));
            x = NODE(n, net_path(n, "features.%d", at++), Relu, NULL, x);
        }
        x = net_max_pool(n, x, net_path(n, "features.%d", at++), 2, 2, 0);
    }
    x = net_global_pool(n, x, "avgpool");
    x = net_dropout(n, x, "dropout", s->dropout);
    net_scores(n, s, net_linear(n, x, "classifier", s->classes, (Init){ NULL, NULL }));
}

DEFINE_NETWORK(cnn, .help = "small VGG with batch-norm, for images", .data = "images:DIR",
               .takes = { [NETWORK_classes] = "10",
                          [NETWORK_layers] = "3",
                          [NETWORK_width] = "32",
                          [NETWORK_size] = "32",
                          [NETWORK_channels] = "3",
                          [NETWORK_dropout] = "0" },
               .check = check, .build = build);
