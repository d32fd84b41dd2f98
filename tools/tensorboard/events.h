/* Event files of TensorBoard: scalars, histograms and images by step, and the graph. */
#ifndef DPX_TOOLS_EVENTS_H
#define DPX_TOOLS_EVENTS_H

#include <jansson.h>

#include "graph/base/status.h"
#include "include/dpexec.h"

typedef struct Events Events;

/* Makes the folder and begins a file in it, in place of those that are there: a resumed run writes all of its steps
 * again, so that each is there once. */
Status events_open(Events **out, const char *folder) CHECKED;
/* E_IO when the file cannot be written; frees it in any case.  NULL is legal. */
Status events_close(Events *e) CHECKED;
Status events_flush(Events *e) CHECKED;
Status events_scalar(Events *e, int64_t step, const char *tag, double v) CHECKED;
/* The numbers of a tensor in 64 buckets of equal width; numbers that are not finite are left out. */
Status events_histogram(Events *e, int64_t step, const char *tag, const dpx_tensor *t) CHECKED;
/* A PNG file in base64, gray or RGB. */
Status events_image(Events *e, int64_t step, const char *tag, const char *png) CHECKED;
/* A graph that dpx_transform has written as "json"; and at a later stage, which has the shapes of more of its values.
 */
Status events_graph(Events *e, const json_t *graph, const json_t *shaped) CHECKED;

#endif
