/* The list of networks, their options, and the writing of a network. */
#include "graph/networks/network.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/networks/layers.h"
#include "graph/onnx/onnx.h"
#include "graph/recipes/setting.h"

extern const NetworkDef network_mlp, network_cnn, network_resnet18, network_resnet50, network_mobilenet, network_vit,
    network_unet, network_lstm, network_gpt;

const NetworkDef *const network_list[] = {
    &network_mlp, &network_cnn,  &network_resnet18, &network_resnet50, &network_mobilenet,
    &network_vit, &network_unet, &network_lstm,     &network_gpt,      NULL,
};

enum { OPSET = 17 /* the first with LayerNormalization; runtimes since 2022 have it */ };

#define AS_SETTING(field, meta, least, most, text) \
    { .name = #field, .metavar = meta, .help = text, SETTING_OF(NetworkSizes, field), .min = least, .max = most },
static const Setting settings[N_NETWORK_OPTIONS] = { NETWORK_OPTION_ROWS(AS_SETTING) };

const char *network_option_name(NetworkOption option) { return settings[option].name; }

/* "--inputs, --classes, --layers" */
static const char *taken_options(char text[256], const NetworkDef *d)
{
    size_t len = 0;

    *text = '\0';
    for (int i = 0; i < N_NETWORK_OPTIONS; i++)
        if (d->takes[i] && len + 16 < 256)
            len += (size_t)snprintf(text + len, 256 - len, "%s--%s", len ? ", " : "", settings[i].name);
    return text;
}

Status network_set(NetworkSizes *s, const NetworkDef *d, NetworkOption option, const char *text)
{
    char taken[256];

    if (!d->takes[option])
        return FAIL(E_INVALID, "it has no --%s; it takes %s", settings[option].name, taken_options(taken, d));
    return setting_set(&settings[option], s, NULL, text);
}

Status network_write(NetworkSummary *out, const NetworkDef *d, const NetworkSizes *s, uint64_t seed, const char *path)
{
    Net n = { .g = graph_create(d->name), .seed = seed };
    char block[32];
    const OnnxProp prop = { "block", block }; /* tools/feed/model_metadata.c reads it */
    OnnxModel model = { .opset = OPSET, .prop = &prop };
    Status st = n.g ? ST_OK : FAIL_NOMEM();

    st = st || !d->check ? st : d->check(s);
    if (!st) {
        d->build(&n, s);
        st = n.g->status;
    }
    model.n_prop = n.block > 0;
    snprintf(block, sizeof block, "%" PRId64, n.block);
    st = st ? st : onnx_export_file(n.g, &(ExportOptions){ .model = &model, .plain = true }, path);
    if (!st) {
        *out = (NetworkSummary){ .parameters = n.parameters, .tensors = n.tensors };
        memcpy(out->input, n.input, sizeof out->input);
        memcpy(out->output, n.output, sizeof out->output);
    }
    graph_free(n.g);
    return st;
}
