/* Convolution and its two gradients, a family closed under differentiation:
 *
 *   y  = Conv(x, w, b)             y[n,m,o] = b[m] + sum over c,k of w[m,c,k] * x[n,c, o*stride + k*dilation - pad]
 *   dx = ConvGradInput(dy, w)      the transpose in x
 *   dw = ConvGradWeight(x, dy)     the transpose in w
 *
 * and ConvRelu(x, w, b, z) = max(0, Conv(x, w, b) + z), rounded once; passes/fuse/fuse_conv.c makes it after
 * differentiation and partitioning.
 *
 * ConvTranspose is ConvGradInput of its input, plus a bias.  Attributes `spatial` and `kernel` give the gradients sizes
 * that their inputs do not have.  The batch size always comes from an input, so it may differ between replicas. */
#include "graph/ops/conv.h"

#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/conv.gen.h"
#include "graph/ops/window.h"

enum { GROUP_LIMIT = 1 << 30 };

/* ---- inference ---- */

/* E_MODEL, E_SHAPE unless `group` divides c and m: x [N, c, ...], w [m, per_group, kernel...], y [N, m, ...]. */
static Status check_channels(const Graph *g, const Node *n, int64_t c, int64_t m, int64_t per_group)
{
    int64_t group = node_int(n, "group");

    if (group < 1 || group > GROUP_LIMIT)
        return FAIL(E_MODEL, "%s: group is %lld, expected 1 to %d", node_text(g, n), (long long)group, GROUP_LIMIT);
    if (m % group || c % group || c / group != per_group)
        return FAIL(E_SHAPE, "%s: %lld channels in %lld groups do not fit weights of %lld outputs by %lld",
                    node_text(g, n), (long long)c, (long long)group, (long long)m, (long long)per_group);
    return ST_OK;
}

static Status check_ranks(const Graph *g, const Node *n, const Shape *a, const Shape *b)
{
    if (a->rank != b->rank || a->rank < 3 || a->rank > 2 + WINDOW_AXES)
        return FAIL(E_SHAPE, "%s: inputs of rank %d and %d, expected the same of 3 to %d", node_text(g, n), a->rank,
                    b->rank, 2 + WINDOW_AXES);
    return infer_same_dtype(g, n, 0, n->n_in);
}

static Status check_bias(const Graph *g, const Node *n, int64_t m)
{
    if (has_in(n, 2) && (in_value(g, n, 2)->shape->rank != 1 || in_value(g, n, 2)->shape->dim[0] != m))
        return FAIL(E_SHAPE, "%s: bias must have shape [%lld]", node_text(g, n), (long long)m);
    return ST_OK;
}

static Status infer_conv(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *w = in_value(g, n, 1)->shape;
    Window win;
    Shape y;

    TRY(check_ranks(g, n, x, w));
    TRY(check_channels(g, n, x->dim[1], w->dim[0], w->dim[1]));
    TRY(check_bias(g, n, w->dim[0]));
    TRY(window_kernel_shape(g, n, w));
    TRY(window_infer(&win, g, n, x, w->dim + 2, false));
    y = window_out_shape(&win, x->dim[0], w->dim[0]);
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return ST_OK;
}

static Status infer_conv_relu(Graph *g, Node *n)
{
    const Shape *z = has_in(n, CONV_IN_ADDED) ? in_value(g, n, CONV_IN_ADDED)->shape : NULL, *y;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    TRY(infer_conv(g, n));
    y = value(g, n->out[0])->shape;
    if (z && !shape_eq(z, y))
        return FAIL(E_SHAPE, "%s: the addend is %s, expected %s", node_text(g, n), shape_text(z, a), shape_text(y, b));
    return ST_OK;
}

/* E_SHAPE unless the forward convolution of x has the shape of dy. */
static Status check_gradient_window(Graph *g, Node *n, const Shape *x, const int64_t *kernel, const Shape *dy)
{
    Window w;
    Shape y;

    TRY(window_infer(&w, g, n, x, kernel, false));
    y = window_out_shape(&w, dy->dim[0], dy->dim[1]);
    if (!shape_eq(&y, dy)) {
        char a[SHAPE_TEXT], b[SHAPE_TEXT];
        return FAIL(E_SHAPE, "%s: the output gradient is %s, expected %s", node_text(g, n), shape_text(dy, a),
                    shape_text(&y, b));
    }
    return ST_OK;
}

static Status infer_grad_input(Graph *g, Node *n)
{
    const Shape *dy = in_value(g, n, 0)->shape, *w = in_value(g, n, 1)->shape;
    int64_t group = node_int(n, "group"), channels;
    Shape x = { .rank = dy->rank };
    int count;
    const int64_t *spatial = node_ints(n, "spatial", &count);

    TRY(check_ranks(g, n, dy, w));
    if (count != dy->rank - 2 || dy->dim[1] != w->dim[0] || group < 1 || group > GROUP_LIMIT || w->dim[1] > GROUP_LIMIT)
        return FAIL(E_SHAPE, "%s: gradient, weights, group and spatial do not fit", node_text(g, n));
    channels = w->dim[1] * group;
    TRY(check_channels(g, n, channels, w->dim[0], w->dim[1]));
    x.dim[0] = dy->dim[0];
    x.dim[1] = channels;
    for (int i = 0; i < count; i++) {
        if (spatial[i] < 0)
            return FAIL(E_MODEL, "%s: spatial[%d] is negative", node_text(g, n), i);
        x.dim[2 + i] = spatial[i];
    }
    TRY(check_gradient_window(g, n, &x, w->dim + 2, dy));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &x);
    return ST_OK;
}

static Status infer_grad_weight(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *dy = in_value(g, n, 1)->shape;
    int64_t group = node_int(n, "group");
    Shape w = { .rank = x->rank };
    int count;
    const int64_t *kernel = node_ints(n, "kernel", &count);

    TRY(check_ranks(g, n, x, dy));
    if (count != x->rank - 2 || x->dim[0] != dy->dim[0] || group < 1)
        return FAIL(E_SHAPE, "%s: input, gradient, group and kernel do not fit", node_text(g, n));
    w.dim[0] = dy->dim[1];
    w.dim[1] = x->dim[1] / group;
    for (int i = 0; i < count; i++)
        w.dim[2 + i] = kernel[i];
    TRY(check_channels(g, n, x->dim[1], w.dim[0], w.dim[1]));
    TRY(check_gradient_window(g, n, x, kernel, dy));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &w);
    return ST_OK;
}

/* ---- gradients ---- */

static const int64_t *pads_of(const Node *n)
{
    int count;

    return node_ints(n, "pads", &count);
}

/* Emits an operator of the family with the window of node `like`, but other pads. */
static ValueId emit_family(Graph *g, const OpDef *op, const Node *like, const int64_t *pads, Attr size, int n_in,
                           const ValueId *in)
{
    int n_stride, n_dilation;
    const int64_t *strides = node_ints(like, "strides", &n_stride);
    const int64_t *dilations = node_ints(like, "dilations", &n_dilation);
    const Attr *attrs = ATTRS(INT("group", node_int(like, "group")), INTS("strides", n_stride, strides),
                              INTS("pads", 2 * n_stride, pads), INTS("dilations", n_dilation, dilations), size);

    return g->status ? NO_VALUE : emit(g, op, attrs, n_in, in);
}

static ValueId conv_forward(Graph *g, const Node *like, const int64_t *pads, ValueId x, ValueId w)
{
    const Shape *s = value(g, w)->shape;

    return emit_family(g, &op_Conv, like, pads, (Attr)INTS("kernel_shape", s->rank - 2, s->dim + 2), 2,
                       (ValueId[]){ x, w });
}

static ValueId grad_input(Graph *g, const Node *like, const int64_t *pads, ValueId dy, ValueId w, const Shape *x)
{
    return emit_family(g, &op_ConvGradInput, like, pads, (Attr)INTS("spatial", x->rank - 2, x->dim + 2), 2,
                       (ValueId[]){ dy, w });
}

static ValueId grad_weight(Graph *g, const Node *like, const int64_t *pads, ValueId x, ValueId dy, const Shape *w)
{
    return emit_family(g, &op_ConvGradWeight, like, pads, (Attr)INTS("kernel", w->rank - 2, w->dim + 2), 2,
                       (ValueId[]){ x, dy });
}

static ValueId grad_bias(Graph *g, ValueId dy)
{
    int64_t axes[] = { 0, 2, 3, 4 };

    return g->status ? NO_VALUE : emit_reduce_sum(g, dy, value(g, dy)->shape->rank - 1, axes, false);
}

static Status grad_conv(Grad *gr)
{
    Graph *g = gr->g;
    const Node *n = gr->node;
    ValueId x = grad_in(gr, 0), w = grad_in(gr, 1), dy = grad_dout(gr, 0);

    if (grad_wanted(gr, 0))
        grad_set(gr, 0, grad_input(g, n, pads_of(n), dy, w, value(g, x)->shape));
    if (grad_wanted(gr, 1))
        grad_set(gr, 1, grad_weight(g, n, pads_of(n), x, dy, value(g, w)->shape));
    if (grad_wanted(gr, 2))
        grad_set(gr, 2, grad_bias(g, dy));
    return g->status;
}

static Status grad_of_grad_input(Grad *gr)
{
    Graph *g = gr->g;
    ValueId dy = grad_in(gr, 0), w = grad_in(gr, 1), d = grad_dout(gr, 0);

    if (grad_wanted(gr, 0))
        grad_set(gr, 0, conv_forward(g, gr->node, pads_of(gr->node), d, w));
    if (grad_wanted(gr, 1))
        grad_set(gr, 1, grad_weight(g, gr->node, pads_of(gr->node), d, dy, value(g, w)->shape));
    return g->status;
}

static Status grad_of_grad_weight(Grad *gr)
{
    Graph *g = gr->g;
    ValueId x = grad_in(gr, 0), dy = grad_in(gr, 1), d = grad_dout(gr, 0);

    if (grad_wanted(gr, 0))
        grad_set(gr, 0, grad_input(g, gr->node, pads_of(gr->node), dy, d, value(g, x)->shape));
    if (grad_wanted(gr, 1))
        grad_set(gr, 1, conv_forward(g, gr->node, pads_of(gr->node), x, d));
    return g->status;
}

/* ---- ConvRelu ---- */

static Status lower_conv_relu(Graph *g, Node *n)
{
    const Shape *w = in_value(g, n, CONV_IN_W)->shape;
    const Attr kernel = INTS("kernel_shape", w->rank - 2, w->dim + 2);
    ValueId y = emit_family(g, &op_Conv, n, pads_of(n), kernel, has_in(n, CONV_IN_BIAS) ? 3 : 2, n->in);

    if (has_in(n, CONV_IN_ADDED))
        y = EMIT(g, Add, NULL, y, n->in[CONV_IN_ADDED]);
    y = EMIT(g, Relu, NULL, y);
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

/* ---- ConvTranspose ---- */

/* One axis.  wanted >= 0 (from output_shape or SAME): sets the pads for that output size; else sets the output size by
 * the pads. */
static Status transpose_axis(const Graph *g, const Node *n, int64_t in, int64_t reach, int64_t stride, int64_t extra,
                             int64_t wanted, bool upper, int64_t *pad, int64_t *pad_end, int64_t *out)
{
    int64_t full = stride * (in - 1) + extra + reach, total;

    if (in < 1)
        return FAIL(E_SHAPE, "%s: an empty spatial axis", node_text(g, n));
    if (wanted < 0) {
        *out = full - *pad - *pad_end;
        return *out < 0 ? FAIL(E_SHAPE, "%s: the pads exceed the output", node_text(g, n)) : ST_OK;
    }
    total = full > wanted ? full - wanted : 0;
    *pad = upper ? total / 2 : total - total / 2;
    *pad_end = total - *pad;
    *out = wanted;
    return ST_OK;
}

static Status transpose_sizes(Graph *g, Node *n, const Shape *x, const Shape *w, int64_t *out)
{
    int rank = x->rank - 2, count, n_shape;
    const char *mode = node_string(n, "auto_pad");
    bool same = mode[0] == 'S', upper = !strcmp(mode, "SAME_UPPER");
    const int64_t *stride = node_ints(n, "strides", &count), *dilation = node_ints(n, "dilations", &count);
    const int64_t *extra = node_ints(n, "output_padding", &count), *shape = node_ints(n, "output_shape", &n_shape);
    int64_t pads[2 * WINDOW_AXES] = { 0 };

    if (!strcmp(mode, "NOTSET"))
        memcpy(pads, node_ints(n, "pads", &count), 2 * (size_t)rank * sizeof *pads);
    if (n_shape && n_shape != rank && n_shape != rank + 2)
        return FAIL(E_SHAPE, "%s: output_shape has %d entries", node_text(g, n), n_shape);
    for (int i = 0; i < rank; i++) {
        int64_t wanted = n_shape ? shape[n_shape - rank + i] : -1;

        if (x->dim[2 + i] > GROUP_LIMIT || w->dim[2 + i] > GROUP_LIMIT || wanted > INT32_MAX)
            return FAIL(E_SHAPE, "%s: spatial axis %d is too large", node_text(g, n), i);
        if (same && !n_shape)
            wanted = x->dim[2 + i] * stride[i];
        TRY(transpose_axis(g, n, x->dim[2 + i], (w->dim[2 + i] - 1) * dilation[i] + 1, stride[i], extra[i], wanted,
                           upper, &pads[i], &pads[rank + i], &out[i]));
    }
    node_set_ints(g, n, "pads", 2 * rank, pads);
    node_set_string(g, n, "auto_pad", "NOTSET");
    return g->status;
}

/* Number of elements of axis i of the output y that are a stride or more past the last window; output_padding or
 * output_shape may add such elements if a dilation is larger than the stride. */
static int64_t transpose_beyond(const Node *n, const Shape *x, const Shape *w, const Shape *y, int i)
{
    int count;
    const int64_t stride = node_ints(n, "strides", &count)[i], dilation = node_ints(n, "dilations", &count)[i];
    const int64_t *pads = node_ints(n, "pads", &count);
    const int64_t first = stride * (x->dim[2 + i] - 1) + (w->dim[2 + i] - 1) * dilation + 1;
    const int64_t left = y->dim[2 + i] + pads[i] + pads[x->rank - 2 + i] - first;

    return left < stride ? 0 : left - (stride - 1);
}

/* The shape of y without these elements, which are zeros; `pads` receives the pads for it.  The pads at the end cover
 * such elements first. */
static Shape transpose_reached(const Node *n, const Shape *x, const Shape *w, const Shape *y, int64_t *pads)
{
    int count;
    const int64_t *given = node_ints(n, "pads", &count);
    const int rank = x->rank - 2;
    Shape reached = *y;

    memcpy(pads, given, 2 * (size_t)rank * sizeof *pads);
    for (int i = 0; i < rank; i++) {
        const int64_t beyond = transpose_beyond(n, x, w, y, i),
                      of_pads = beyond < pads[rank + i] ? beyond : pads[rank + i];

        pads[rank + i] -= of_pads;
        reached.dim[2 + i] -= beyond - of_pads;
    }
    return reached;
}

bool conv_reaches_all(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *w = in_value(g, n, 1)->shape;

    for (int i = 0; n->op == &op_ConvTranspose && i < x->rank - 2; i++)
        if (transpose_beyond(n, x, w, value(g, n->out[0])->shape, i))
            return false;
    return true;
}

static Status infer_transpose(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *w = in_value(g, n, 1)->shape;
    int rank = x->rank - 2, count;
    int64_t group = node_int(n, "group"), out[WINDOW_AXES];
    const int64_t *spatial;
    Shape y = { .rank = x->rank };

    TRY(check_ranks(g, n, x, w));
    if (group < 1 || group > GROUP_LIMIT || w->dim[1] > GROUP_LIMIT || x->dim[1] != w->dim[0])
        return FAIL(E_SHAPE, "%s: %lld channels, %lld groups and weights do not fit", node_text(g, n),
                    (long long)x->dim[1], (long long)group);
    TRY(check_channels(g, n, w->dim[1] * group, w->dim[0], w->dim[1]));
    TRY(check_bias(g, n, w->dim[1] * group));
    TRY(window_kernel_shape(g, n, w));
    TRY(window_list(g, n, "strides", rank, 1, 1));
    TRY(window_list(g, n, "dilations", rank, 1, 1));
    TRY(window_list(g, n, "pads", 2 * rank, 0, 0));
    TRY(window_list(g, n, "output_padding", rank, 0, 0));
    TRY(transpose_sizes(g, n, x, w, out));
    spatial = node_ints(n, "spatial", &count);
    if (count == rank && memcmp(spatial, out, (size_t)rank * sizeof *out)) /* the input had another size */
        return FAIL(E_SHAPE, "%s: made for another size of the input", node_text(g, n));
    if (count != rank)
        node_set_ints(g, n, "spatial", rank, out);
    y.dim[0] = x->dim[0];
    y.dim[1] = w->dim[1] * group;
    memcpy(y.dim + 2, out, (size_t)rank * sizeof *out);
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return g->status;
}

static Status lower_transpose(Graph *g, Node *n)
{
    const Shape *y = value(g, n->out[0])->shape;
    int64_t pads[2 * WINDOW_AXES];
    const Shape reached = transpose_reached(n, in_value(g, n, 0)->shape, in_value(g, n, 1)->shape, y, pads);
    ValueId sum = emit_fit(g, grad_input(g, n, pads, n->in[0], n->in[1], &reached), y);
    Shape b = { .rank = y->rank };

    for (int i = 0; i < y->rank; i++)
        b.dim[i] = i == 1 ? y->dim[1] : 1;
    if (has_in(n, 2))
        sum = EMIT(g, Add, NULL, sum, emit_reshape(g, n->in[2], &b));
    if (!g->status)
        graph_replace(g, n->out[0], sum);
    return g->status;
}

/* ---- placement ---- */

/* Splits input 0 along the batch.  Bilinear: with one factor partial, the other whole and no bias the result is
 * partial.
 */
static Status place_conv(Placement *p)
{
    const PlaceKind a = place_in(p, 0).kind, b = place_in(p, 1).kind;

    if (has_in(p->node, 2) || a + b != PL_P || (a != PL_P && b != PL_P))
        return place_batch0(p);
    place_set_all(p, PLACE_P);
    return ST_OK;
}

/* Both inputs split along the batch give a partial sum over the samples. */
static Status place_grad_weight(Placement *p)
{
    bool split = false;

    for (int i = 0; i < 2; i++) {
        if (place_in(p, i).kind == PL_S && place_in(p, i).axis == 0)
            split = true;
        else if (place_in(p, i).kind == PL_S)
            place_mixes(p, "it is split along another axis than the batch");
    }
    if (!split)
        return place_conv(p);
    place_need(p, 0, PLACE_S(0));
    place_need(p, 1, PLACE_S(0));
    place_set_all(p, PLACE_P);
    return ST_OK;
}

/* Forward and both gradients: a multiply-add for each element of the output and each weight of an output channel. */
static int64_t conv_flops(const Graph *g, const Node *n)
{
    bool by_weight = n->op == &op_ConvGradWeight, by_input = n->op == &op_ConvGradInput;
    const Shape *w = by_weight ? value(g, n->out[0])->shape : in_value(g, n, 1)->shape;
    const Shape *y = by_weight  ? in_value(g, n, 1)->shape
                     : by_input ? in_value(g, n, 0)->shape
                                : value(g, n->out[0])->shape;

    return shape_known(w) && shape_known(y) ? 2 * shape_numel(y) * shape_count(w, 1, w->rank) : 0;
}

#define WINDOW_ATTRS                                                                            \
    { "dilations", A_INTS, .range = R_STEPS }, { "group", A_INT, .i = 1, .range = R_POSITIVE }, \
        { "pads", A_INTS, .range = R_PADS },                                                    \
    {                                                                                           \
        "strides", A_INTS, .range = R_STEPS                                                     \
    }

/* ---- the gradients in ONNX's operators ---- */

ValueId conv_transposed(Graph *g, const Node *n, ValueId dy, ValueId w, int64_t group, const int64_t *spatial)
{
    const Shape *y = value(g, dy)->shape, *k = value(g, w)->shape;
    const int rank = y->rank - 2;
    int count;
    const int64_t *stride = node_ints(n, "strides", &count), *dilation = node_ints(n, "dilations", &count);
    int64_t pads[2 * WINDOW_AXES], extra[WINDOW_AXES];
    ValueId x;

    memcpy(pads, node_ints(n, "pads", &count), 2 * (size_t)rank * sizeof *pads);
    for (int i = 0; i < rank; i++) {
        const int64_t full = stride[i] * (y->dim[2 + i] - 1) + (k->dim[2 + i] - 1) * dilation[i] + 1;

        extra[i] = spatial[i] - (full - pads[i] - pads[rank + i]);
        if (extra[i] < 0)
            pads[rank + i] -= extra[i];
        extra[i] = extra[i] < 0 ? 0 : extra[i];
    }
    x = EMIT(g, ConvTranspose,
             ATTRS(INTS("strides", rank, stride), INTS("dilations", rank, dilation), INTS("pads", 2 * rank, pads),
                   INTS("output_padding", rank, extra), INT("group", group)),
             dy, w);
    if (!g->status)
        node_set_ints(g, value(g, x)->producer, "spatial", 0, NULL); /* ONNX lacks it; output_padding replaces it */
    return x;
}

static Status standard_grad_input(Graph *g, Node *n)
{
    int rank;
    const int64_t *spatial = node_ints(n, "spatial", &rank);

    graph_replace(g, n->out[0], conv_transposed(g, n, n->in[0], n->in[1], node_int(n, "group"), spatial));
    return g->status;
}

/* Transposes x [N, G Q, ...] to [Q, G N, ...], or with `join` to [G Q, N, ...]. */
static ValueId samples_inside(Graph *g, ValueId x, int64_t group, bool join)
{
    const Shape *s = value(g, x)->shape;
    const int64_t each = s->dim[1] / group;
    Shape apart = { .rank = s->rank + 1, .dim = { s->dim[0], group, each } }, out = *s;
    int64_t perm[MAX_RANK] = { join ? 1 : 2, join ? 2 : 1, 0 };

    for (int i = 2; i < s->rank; i++) {
        apart.dim[i + 1] = s->dim[i];
        perm[i + 1] = i + 1;
    }
    out.dim[0] = join ? s->dim[1] : each;
    out.dim[1] = join ? s->dim[0] : group * s->dim[0];
    x = emit_transpose(g, emit_reshape(g, x, &apart), apart.rank, perm);
    return emit_reshape(g, x, &out);
}

/* A convolution of x by dy over the samples, with strides and dilations exchanged.  Its result may be larger than the
 * kernel, and is then sliced. */
static Status standard_grad_weight(Graph *g, Node *n)
{
    const Shape *w = value(g, n->out[0])->shape;
    const int rank = w->rank - 2;
    int count;
    const int64_t group = node_int(n, "group"), *pads = node_ints(n, "pads", &count);
    const int64_t *stride = node_ints(n, "strides", &count), *dilation = node_ints(n, "dilations", &count);
    int64_t from[WINDOW_AXES] = { 0 }, axes[WINDOW_AXES], perm[MAX_RANK] = { 1, 0 };
    ValueId x = samples_inside(g, n->in[0], group, false), dy = samples_inside(g, n->in[1], group, true), y;

    for (int i = 0; i < rank; i++)
        perm[2 + i] = axes[i] = 2 + i;
    y = EMIT(g, Conv,
             ATTRS(INTS("strides", rank, dilation), INTS("dilations", rank, stride), INTS("pads", 2 * rank, pads),
                   INT("group", group)),
             x, dy);
    TRY(g->status);
    if (memcmp(value(g, y)->shape->dim + 2, w->dim + 2, (size_t)rank * sizeof *w->dim)) {
        const ValueId begin = emit_ints(g, rank, from), end = emit_ints(g, rank, w->dim + 2);

        y = EMIT(g, Slice, NULL, y, begin, end, emit_ints(g, rank, axes));
    }
    graph_replace(g, n->out[0], emit_transpose(g, y, w->rank, perm));
    return g->status;
}

static const AttrDecl conv_attrs[] = { WINDOW_ATTRS, AUTO_PAD, { "kernel_shape", A_INTS, .range = R_STEPS }, { 0 } };

static MatrixKind filter_matrix(const Node *n, int i)
{
    (void)n;
    return i == 1 ? MATRIX_FLAT : MATRIX_NONE;
}

DEFINE_OP(Conv, .layout = LAYOUT_LIKES, .filter_in = 2, .precision = PREC_LOW, .param_in = 6, .since = 11, .from = 1,
          .in_min = 2, .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .attrs = conv_attrs,
          .doc = "convolution", .infer = infer_conv, .grad = grad_conv, .place = place_conv, .flops = conv_flops,
          .matrix_in = filter_matrix);

DEFINE_OP(ConvRelu, .layout = LAYOUT_LIKES, .filter_in = 2, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 4,
          .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, .attrs = conv_attrs, .doc = "max(0, Conv(x, w, b) + z)",
          .infer = infer_conv_relu, .lower = lower_conv_relu, .flops = conv_flops);

DEFINE_OP(ConvGradInput, .layout = LAYOUT_LIKES, .filter_in = 2, .domain = "dpexec", .since = 1, .in_min = 2,
          .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ WINDOW_ATTRS,
                                       { "spatial", A_INTS, .rule = ATTR_REQUIRED, .range = R_SIZES },
                                       { 0 } },
          .doc = "gradient of Conv by its input, from (dy, w)", .infer = infer_grad_input,
          .standard = standard_grad_input, .grad = grad_of_grad_input, .place = place_conv, .flops = conv_flops);

DEFINE_OP(
    ConvGradWeight, .layout = LAYOUT_LIKES, .filter_out = 1, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 2,
    .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
    .attrs = (const AttrDecl[]){ WINDOW_ATTRS, { "kernel", A_INTS, .rule = ATTR_REQUIRED, .range = R_SIZES }, { 0 } },
    .doc = "gradient of Conv by its weights, from (x, dy)", .infer = infer_grad_weight,
    .standard = standard_grad_weight, .grad = grad_of_grad_weight, .place = place_grad_weight, .flops = conv_flops);

DEFINE_OP(ConvTranspose, .filter_in = 2, .precision = PREC_LOW, .param_in = 6, .since = 11, .from = 1, .in_min = 2,
          .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ WINDOW_ATTRS,
                                       AUTO_PAD,
                                       { "kernel_shape", A_INTS, .range = R_STEPS },
                                       { "output_padding", A_INTS, .range = R_SIZES },
                                       { "output_shape", A_INTS, .range = R_SIZES },
                                       { "spatial", A_INTS, .rule = ATTR_OURS, .range = R_SIZES },
                                       { 0 } },
          .doc = "transposed convolution", .infer = infer_transpose, .lower = lower_transpose, .place = place_conv,
          .matrix_in = filter_matrix);
