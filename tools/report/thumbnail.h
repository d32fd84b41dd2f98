/* Small pictures within pages. */
#ifndef DPX_TOOLS_THUMBNAIL_H
#define DPX_TOOLS_THUMBNAIL_H

#include "graph/base/status.h"
#include "include/dpexec.h"

/* Draws sample `at` of a batch of images [N, 1 or 3, H, W] in floats or bytes, at most 64 pixels wide and high, its
 * least number black and its greatest white, as a PNG file in base64, which the caller frees.  *out NULL: it is no
 * image. */
Status thumbnail_base64(char **out, const dpx_tensor *images, int64_t at) CHECKED;

enum { NO_CLASS = 255 }; /* of a pixel that does not count */
/* Draws a mask [height][width] of classes, each in a colour of its own: eight in turn, those of report.js; pixels of
 * NO_CLASS are white. */
Status thumbnail_of_classes(char **out, const uint8_t *class_of, int64_t height, int64_t width) CHECKED;

#endif
