/* The sliding window of convolutions and pooling: kernel, strides, dilations and pads over up to three spatial axes. */
#ifndef DPX_OPS_WINDOW_H
#define DPX_OPS_WINDOW_H

#include "graph/ir/op.h"

enum { WINDOW_AXES = 3 };

#define AUTO_PAD                                                                           \
    {                                                                                      \
        "auto_pad", A_STRING, .s = "NOTSET", .words = "NOTSET SAME_UPPER SAME_LOWER VALID" \
    }

/* Always three axes: missing ones are leading axes with size, kernel and stride 1, so that loops do not depend on the
 * rank.  Output position o and kernel position k meet input position o * stride + k * dilation - pad. */
typedef struct {
    int rank; /* spatial axes of the operator, 1 to 3 */
    int64_t in[WINDOW_AXES], out[WINDOW_AXES], kernel[WINDOW_AXES], stride[WINDOW_AXES], dilation[WINDOW_AXES];
    int64_t pad[WINDOW_AXES], pad_end[WINDOW_AXES];
} Window;

/* Checks and normalises the window of node `n` over an input of shape `x` ([N, C, spatial...]): afterwards "strides",
 * "dilations" and "pads" are full lists and "auto_pad", where declared, is NOTSET, since the pads express it.
 * `kernel` holds one size per spatial axis.  w->out receives the sizes of the output. */
Status window_infer(Window *w, Graph *g, Node *n, const Shape *x, const int64_t *kernel, bool ceil_mode) CHECKED;
/* Reads the window of a normalised node with input shape x and output shape y. */
void window_read(Window *w, const Node *n, const Shape *x, const Shape *y, const int64_t *kernel);
/* Fills an empty list attribute `name` with `rank` times `value`; each entry must be in [min, 2^31). */
Status window_list(Graph *g, Node *n, const char *name, int rank, int64_t value, int64_t min) CHECKED;
/* Checks "kernel_shape" against the weights [M, C, spatial...], or sets it to their spatial shape. */
Status window_kernel_shape(Graph *g, Node *n, const Shape *weights) CHECKED;
/* The shape [n, c, w->out...]. */
Shape window_out_shape(const Window *w, int64_t n, int64_t c);

/* The offset of each plane of [n, c, ...], of `size` elements each: int64 [n, c, 1...]. */
ValueId emit_plane_starts(Graph *g, const Shape *x, int64_t size);

static inline int64_t window_numel(const int64_t size[WINDOW_AXES]) { return size[0] * size[1] * size[2]; }

/* Output positions [*lo, *hi) along `axis` for which kernel position k lies inside the input; may be empty. */
static inline void window_range(const Window *w, int axis, int64_t k, int64_t *lo, int64_t *hi)
{
    int64_t shift = k * w->dilation[axis] - w->pad[axis], s = w->stride[axis];

    *lo = shift >= 0 ? 0 : (-shift + s - 1) / s;
    *hi = w->in[axis] - shift <= 0 ? 0 : (w->in[axis] - 1 - shift) / s + 1;
    if (*hi > w->out[axis])
        *hi = w->out[axis];
}

#endif
