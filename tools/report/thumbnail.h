/* Small pictures within pages. */
#ifndef DPX_TOOLS_THUMBNAIL_H
#define DPX_TOOLS_THUMBNAIL_H

#include "graph/base/status.h"
#include "include/dpexec.h"

/* Draws sample `at` of a batch of images [N, 1 or 3, H, W] in floats or bytes, at most 64 pixels wide and high, its
 * least number black and its greatest white, as a PNG file in base64, which the caller frees.  *out NULL: it is no
 * image. */
Status thumbnail_base64(char **out, const dpx_tensor *images, int64_t at) CHECKED;

#endif
