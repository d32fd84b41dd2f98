/* Networks that `dpexec new` writes as ONNX models with initial values.
 *
 * A network is a file of this folder with a DEFINE_NETWORK, and a line in the list of network.c.  Its layers are those
 * of layers.h.  Options, their ranges and their help are the rows below; a network says which it takes, with its
 * defaults. */
#ifndef DPX_NETWORKS_NETWORK_H
#define DPX_NETWORKS_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/base/status.h"

/* X(name, metavar, least, most, help): whole numbers of NetworkSizes, except dropout. */
#define NETWORK_OPTION_ROWS(X)                                                                                    \
    X(inputs, "N", 1, 1e7, "features of a sample; lstm: of each step of a sequence")                              \
    X(classes, "N", 1, 1e6, "number of classes")                                                                  \
    X(outputs, "N", 1, 1e6, "numbers to predict for each sample, in place of --classes")                          \
    X(layers, "N", 1, 1000, "number of layers; mlp: hidden layers; cnn and unet: halvings of the image")          \
    X(width, "N", 1, 65536, "units of a hidden layer, features of a token, or channels of the first convolution") \
    X(heads, "N", 1, 1024, "attention heads, a divisor of --width")                                               \
    X(block, "N", 1, 1e6, "most tokens that the network reads")                                                   \
    X(vocab, "N", 2, 1e7, "tokens in the vocabulary, with ids from 0 to N - 1; 256 for bytes")                    \
    X(size, "N", 1, 65536, "pixels of an image's side")                                                           \
    X(channels, "N", 1, 65536, "channels of the images: 3 for colours, 1 for gray")                               \
    X(patch, "N", 1, 65536, "pixels of a patch's side, a divisor of --size")                                      \
    X(dropout, "P", 0, 0.99, "dropout probability in training")

/* What a network is built from; 0: the network has no such option, or it has no value. */
typedef struct {
    int64_t inputs, classes, outputs, layers, width, heads, block, vocab, size, channels, patch;
    double dropout;
} NetworkSizes;

#define NETWORK_OPTION_ID(name, metavar, least, most, help) NETWORK_##name,
typedef enum { NETWORK_OPTION_ROWS(NETWORK_OPTION_ID) N_NETWORK_OPTIONS } NetworkOption;
#undef NETWORK_OPTION_ID

struct Net;

typedef struct {
    const char *name, *help;
    const char *data, *data_of_ids; /* a source of --data: "images:DIR"; of token ids, if the network has two kinds */
    /* By option: its default as text; "": it has none; NULL: the network does not take it. */
    const char *takes[N_NETWORK_OPTIONS];
    Status (*check)(const NetworkSizes *); /* E_INVALID: options that do not fit together; NULL: all do */
    void (*build)(struct Net *, const NetworkSizes *);
} NetworkDef;

#define DEFINE_NETWORK(ident, ...) const NetworkDef network_##ident = { .name = #ident, __VA_ARGS__ }

/* In the order of the help; NULL ends the list. */
extern const NetworkDef *const network_list[];

/* Sets an option from text.  E_INVALID: the network does not take it, or the text is out of its range. */
Status network_set(NetworkSizes *s, const NetworkDef *d, NetworkOption option, const char *text) CHECKED;
/* "--width" */
const char *network_option_name(NetworkOption option);

enum { NETWORK_VALUE_TEXT = 64 };
typedef struct {
    int64_t parameters;                                         /* numbers that training changes */
    int tensors;                                                /* that hold them */
    char input[NETWORK_VALUE_TEXT], output[NETWORK_VALUE_TEXT]; /* "image [N,3,224,224]" */
} NetworkSummary;

/* Checks the sizes and writes the network for opset 17, with values that the seed draws.  The caller has set all
 * options that have a default. */
Status network_write(NetworkSummary *out, const NetworkDef *d, const NetworkSizes *s, uint64_t seed,
                     const char *path) CHECKED;

#endif
