/* The sliding window of convolutions and pooling: checks and normalisation of its attributes.
 *
 * auto_pad is resolved to explicit pads here, so gradients, kernels and the replicas' graphs (which share all spatial
 * sizes) need only pads.  Every number is less than 2^31, so no sum or product below overflows. */
#include "graph/ops/window.h"

#include <string.h>

static const int64_t LIMIT = INT64_C(1) << 31;

Status window_list(Graph *g, Node *n, const char *name, int rank, int64_t value, int64_t min)
{
    int64_t filled[2 * WINDOW_AXES];
    int count;
    const int64_t *v = node_ints(n, name, &count);

    if (!count) {
        for (int i = 0; i < rank; i++)
            filled[i] = value;
        node_set_ints(g, n, name, rank, filled);
        return g->status;
    }
    if (count != rank)
        return FAIL(E_SHAPE, "%s: %s has %d entries, expected %d", node_text(g, n), name, count, rank);
    for (int i = 0; i < rank; i++)
        if (v[i] < min || v[i] >= LIMIT)
            return FAIL(E_MODEL, "%s: %s[%d] is %lld, expected %lld or more", node_text(g, n), name, i, (long long)v[i],
                        (long long)min);
    return ST_OK;
}

/* Number of input positions that a window spans along an axis. */
static int64_t reach(const Window *w, int i) { return (w->kernel[i] - 1) * w->dilation[i] + 1; }

/* Computes the pads for auto_pad.  SAME: one output for each stride that begins in the input; an odd pad goes to the
 * end (UPPER) or the beginning (LOWER). */
static Status resolve_auto_pad(Graph *g, Node *n, Window *w, bool *same)
{
    const char *mode = node_attr(n, "auto_pad") ? node_string(n, "auto_pad") : "NOTSET";
    int64_t pads[2 * WINDOW_AXES];
    int first = WINDOW_AXES - w->rank;
    bool upper = !strcmp(mode, "SAME_UPPER");

    *same = false;
    if (!strcmp(mode, "NOTSET"))
        return ST_OK;
    *same = upper || !strcmp(mode, "SAME_LOWER");
    if (!*same && strcmp(mode, "VALID"))
        return FAIL(E_MODEL, "%s: auto_pad is '%s', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID", node_text(g, n),
                    mode);
    for (int i = first; i < WINDOW_AXES; i++) {
        int64_t out = w->in[i] / w->stride[i] + (w->in[i] % w->stride[i] != 0);
        int64_t total = (out - 1) * w->stride[i] + reach(w, i) - w->in[i];

        total = *same && out > 0 && total > 0 ? total : 0;
        w->pad[i] = upper ? total / 2 : total - total / 2;
        w->pad_end[i] = total - w->pad[i];
        pads[i - first] = w->pad[i];
        pads[i - first + w->rank] = w->pad_end[i];
    }
    node_set_ints(g, n, "pads", 2 * w->rank, pads);
    node_set_string(g, n, "auto_pad", "NOTSET");
    return g->status;
}

/* Reads all of the window but the output's sizes. */
static void read(Window *w, const Node *n, const Shape *x, const int64_t *kernel)
{
    int rank = x->rank - 2, first = WINDOW_AXES - rank, count, n_dilations;
    const int64_t *stride = node_ints(n, "strides", &count), *pad = node_ints(n, "pads", &count);
    const int64_t *dilation = node_ints(n, "dilations", &n_dilations);

    *w = (Window){ .rank = rank };
    for (int i = 0; i < first; i++)
        w->in[i] = w->out[i] = w->kernel[i] = w->stride[i] = w->dilation[i] = 1;
    for (int i = first, j = 0; j < rank; i++, j++) {
        w->in[i] = x->dim[2 + j];
        w->kernel[i] = kernel[j];
        w->stride[i] = stride[j];
        w->dilation[i] = dilation[j];
        w->pad[i] = pad[j];
        w->pad_end[i] = pad[rank + j];
    }
}

/* Computes the output's sizes.  A last window added by ceil_mode must begin inside the input or the padding before it.
 */
static Status window_count_outputs(const Graph *g, const Node *n, Window *w, bool ceil_mode)
{
    for (int i = WINDOW_AXES - w->rank; i < WINDOW_AXES; i++) {
        int64_t room = w->in[i] + w->pad[i] + w->pad_end[i] - reach(w, i);

        if (w->in[i] >= INT64_MAX - 4 * LIMIT || room < 0)
            return FAIL(E_SHAPE, "%s: a window of %lld does not fit into %lld padded by %lld and %lld", node_text(g, n),
                        (long long)reach(w, i), (long long)w->in[i], (long long)w->pad[i], (long long)w->pad_end[i]);
        w->out[i] = room / w->stride[i] + 1;
        if (ceil_mode && room % w->stride[i] && w->out[i] * w->stride[i] < w->in[i] + w->pad[i])
            w->out[i]++;
    }
    return ST_OK;
}

Status window_infer(Window *w, Graph *g, Node *n, const Shape *x, const int64_t *kernel, bool ceil_mode)
{
    int rank = x->rank - 2;
    bool same;

    if (x->rank < 3)
        return FAIL(E_SHAPE, "%s: input of rank %d, expected [batch, channels, spatial...]", node_text(g, n), x->rank);
    if (x->rank > 2 + WINDOW_AXES)
        return FAIL(E_UNSUPPORTED, "%s: %d spatial axes, at most %d are supported", node_text(g, n), x->rank - 2,
                    WINDOW_AXES);
    for (int i = 0; i < rank; i++) {
        if (kernel[i] < 1 || kernel[i] >= LIMIT)
            return FAIL(E_MODEL, "%s: kernel size %lld along axis %d", node_text(g, n), (long long)kernel[i], i + 2);
        if (x->dim[2 + i] >= INT64_MAX / 4)
            return FAIL(E_SHAPE, "%s: dimension %d is too large", node_text(g, n), i + 2);
    }
    TRY(window_list(g, n, "strides", rank, 1, 1));
    TRY(window_list(g, n, "dilations", rank, 1, 1));
    TRY(window_list(g, n, "pads", 2 * rank, 0, 0));
    read(w, n, x, kernel);
    TRY(resolve_auto_pad(g, n, w, &same));
    return window_count_outputs(g, n, w, ceil_mode && !same);
}

void window_read(Window *w, const Node *n, const Shape *x, const Shape *y, const int64_t *kernel)
{
    read(w, n, x, kernel);
    for (int j = 0; j < w->rank; j++)
        w->out[WINDOW_AXES - w->rank + j] = y->dim[2 + j];
}

Status window_kernel_shape(Graph *g, Node *n, const Shape *w)
{
    int count;
    const int64_t *k = node_ints(n, "kernel_shape", &count);

    for (int i = 0; i < count; i++)
        if (count != w->rank - 2 || k[i] != w->dim[2 + i])
            return FAIL(E_SHAPE, "%s: kernel_shape does not fit the weights", node_text(g, n));
    if (!count)
        node_set_ints(g, n, "kernel_shape", w->rank - 2, w->dim + 2);
    return g->status;
}

Shape window_out_shape(const Window *w, int64_t n, int64_t c)
{
    Shape s = { .rank = 2 + w->rank, .dim = { n, c } };

    for (int j = 0; j < w->rank; j++)
        s.dim[2 + j] = w->out[WINDOW_AXES - w->rank + j];
    return s;
}

ValueId emit_plane_starts(Graph *g, const Shape *x, int64_t size)
{
    Shape s = { .rank = x->rank, .dim = { x->dim[0], x->dim[1], 1, 1, 1, 1, 1, 1 } };
    Tensor *start = tensor_create(g->arena, DT_INT64, &s);

    if (!start) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < tensor_numel(start); i++)
        tensor_set_int(start, i, i * size);
    return graph_add_const_nocopy(g, "plane_starts", start);
}
