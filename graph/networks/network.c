/* The list of networks, their options, and the writing of a network. */
#include "graph/networks/network.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/machine.h"
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
        return FAIL(E_INVALID, "the network has no --%s; it takes %s", settings[option].name, taken_options(taken, d));
    return setting_set(&settings[option], s, NULL, text);
}

/* Builds the network; the caller frees net->g in any case. */
static Status build(Net *net, const NetworkDef *d, const NetworkSizes *s, uint64_t seed, bool counts)
{
    *net = (Net){ .g = graph_create(d->name), .seed = seed, .counts = counts };
    if (!net->g)
        return FAIL_NOMEM();
    d->build(net, s);
    return net->g->status;
}

/* E_INVALID when the machine's memory does not hold the parameters. */
static Status check_memory(const NetworkDef *d, const NetworkSizes *s)
{
    const double gib = 1 << 30;
    Net net;
    Status st = build(&net, d, s, 0, true);
    const double bytes = (double)net.parameters * sizeof(float), most = (double)machine_memory();

    graph_free(net.g);
    if (!st && most > 0 && bytes > most)
        return FAIL(E_INVALID,
                    "%" PRId64 " parameters take %.1f GiB, and the machine has %.1f GiB: choose smaller sizes",
                    net.parameters, bytes / gib, most / gib);
    return st;
}

Status network_write(NetworkSummary *out, const NetworkDef *d, const NetworkSizes *s, uint64_t seed, const char *path)
{
    char block[32];
    const OnnxProp prop = { "block", block }; /* tools/feed/model_metadata.c reads it */
    OnnxModel model = { .opset = OPSET, .prop = &prop };
    Net net;
    Status st = d->check ? d->check(s) : ST_OK;

    if (st || (st = check_memory(d, s)))
        return st;
    st = build(&net, d, s, seed, false);
    model.n_prop = net.block > 0;
    snprintf(block, sizeof block, "%" PRId64, net.block);
    st = st ? st : onnx_export_file(net.g, &(ExportOptions){ .model = &model, .plain = true }, path);
    if (!st) {
        *out = (NetworkSummary){ .parameters = net.parameters, .tensors = net.tensors };
        memcpy(out->input, net.input, sizeof out->input);
        memcpy(out->output, net.output, sizeof out->output);
    }
    graph_free(net.g);
    return st;
}
