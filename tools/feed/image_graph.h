/* The preprocessing of images as an ONNX model, so that a deployed model takes decoded images of any size. */
#ifndef DPX_TOOLS_IMAGE_GRAPH_H
#define DPX_TOOLS_IMAGE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/base/status.h"

typedef struct {
    const char *input, *output;      /* bytes [N, any height, any width, channels]; the model's input */
    int32_t dtype;                   /* of the output, as ONNX numbers it: a float */
    bool nhwc;                       /* the output has that order of axes; else [N, channels, height, width] */
    bool stretch, bicubic;           /* how images become height x width: fit=stretch; filter=bicubic */
    int64_t channels, height, width; /* channels: 1 or 3 */
    const double *mean, *std;        /* [channels] */
} ImageGraph;

/* Writes a model that resizes and crops the bytes, and computes (bytes / 255 - mean) / std in float64, rounded once.
 * It has operators of opset 18, the first whose Resize is antialiased. */
Status image_graph_write(const ImageGraph *d, const char *path) CHECKED;

#endif
