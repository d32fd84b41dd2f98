/* The normalisation of images as an ONNX model, so that a deployed model takes bytes. */
#ifndef DPX_TOOLS_IMAGE_GRAPH_H
#define DPX_TOOLS_IMAGE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/base/status.h"

typedef struct {
    const char *input, *output;      /* bytes [N, height, width, channels]; the model's input */
    int32_t dtype;                   /* of the output, as ONNX numbers it: a float */
    bool nhwc;                       /* the output has that order of axes; else [N, channels, height, width] */
    int64_t channels, height, width; /* channels: 1 or 3 */
    const double *mean, *std;        /* [channels] */
} ImageGraph;

/* Writes a model that computes (bytes / 255 - mean) / std in float64 and rounds it once, with operators of opset 13. */
Status image_graph_write(const ImageGraph *d, const char *path) CHECKED;

#endif
