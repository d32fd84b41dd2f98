/* DeformConv: a convolution that samples x for each element of the kernel at an offset position.
 *
 * GridSample samples the columns, for each group of channels with common offsets; a Mul applies the mask, a MatMul the
 * weights.  x[N,C,spatial], w[M,C/group,kernel], offset[N,groups*elements*axes,out], mask[N,groups*elements,out],
 * y[N,M,out]. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/grid_sample.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/window.h"

enum { X, W, OFFSET, B, MASK };

static Status check_channels(const Graph *g, const Node *n, int64_t groups)
{
    const Shape *x = in_value(g, n, X)->shape, *w = in_value(g, n, W)->shape;
    const int64_t group = node_int(n, "group");
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (w->rank != x->rank || w->rank < 3)
        return FAIL(E_SHAPE, "%s: input %s and weights %s, expected the same rank, 3 or more", node_text(g, n),
                    shape_text(x, a), shape_text(w, b));
    if (x->dim[1] % group || x->dim[1] / group != w->dim[1] || w->dim[0] % group)
        return FAIL(E_SHAPE, "%s: weights %s do not fit %lld channels in %lld groups", node_text(g, n),
                    shape_text(w, a), (long long)x->dim[1], (long long)group);
    if (!x->dim[1] || !w->dim[0] || x->dim[1] % groups)
        return FAIL(E_SHAPE, "%s: %lld channels do not divide into %lld groups of offsets", node_text(g, n),
                    (long long)x->dim[1], (long long)groups);
    return ST_OK;
}

/* E_SHAPE unless input i has y's shape with `channels` channels. */
static Status check_like(const Graph *g, const Node *n, int i, const char *what, const Shape *y, int64_t channels)
{
    Shape want = *y;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    want.dim[1] = channels;
    if (!shape_eq(in_value(g, n, i)->shape, &want))
        return FAIL(E_SHAPE, "%s: the %s is %s, expected %s", node_text(g, n), what,
                    shape_text(in_value(g, n, i)->shape, a), shape_text(&want, b));
    return ST_OK;
}

static Status deform_conv_infer(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, X)->shape, *w = in_value(g, n, W)->shape;
    const int64_t groups = node_int(n, "offset_group");
    int64_t elements;
    Window win;
    Shape y;

    TRY(infer_same_dtype(g, n, 0, n->n_in));
    TRY(check_channels(g, n, groups));
    TRY(window_kernel_shape(g, n, w));
    TRY(window_infer(&win, g, n, x, w->dim + 2, false));
    y = window_out_shape(&win, x->dim[0], w->dim[0]);
    if (__builtin_mul_overflow(window_numel(win.kernel), groups * 3, &elements))
        return FAIL(E_SHAPE, "%s: %lld groups of offsets are too many", node_text(g, n), (long long)groups);
    elements /= 3;
    TRY(check_like(g, n, OFFSET, "offset", &y, elements * win.rank));
    if (has_in(n, MASK))
        TRY(check_like(g, n, MASK, "mask", &y, elements));
    if (has_in(n, B) && (in_value(g, n, B)->shape->rank != 1 || in_value(g, n, B)->shape->dim[0] != w->dim[0]))
        return FAIL(E_SHAPE, "%s: bias must have shape [%lld]", node_text(g, n), (long long)w->dim[0]);
    for (int i = 2; i < x->rank; i++)
        if (!x->dim[i])
            return FAIL(E_SHAPE, "%s: spatial axis %d is empty", node_text(g, n), i);
    set_out(g, n, 0, in_value(g, n, X)->dtype, &y);
    return g->status;
}

/* Positions of the kernel's elements without offsets: [1, elements, axes, out]. */
static ValueId emit_places(Graph *g, DType t, const Window *w)
{
    const int first = WINDOW_AXES - w->rank;
    const int64_t elements = window_numel(w->kernel), out = window_numel(w->out);
    const Shape shape = SHAPE(1, elements, w->rank, out);
    Tensor *all = tensor_create(g->arena, t, &shape);

    if (!all) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < elements * out; i++) {
        int64_t k = i / out, o = i % out;

        for (int a = WINDOW_AXES - 1; a >= first; a--) {
            const int64_t at = o % w->out[a] * w->stride[a] - w->pad[a] + k % w->kernel[a] * w->dilation[a];

            tensor_set_float(all, (i / out * w->rank + a - first) * out + i % out, (double)at);
            k /= w->kernel[a], o /= w->out[a];
        }
    }
    return graph_add_const_nocopy(g, "places", all);
}

/* The sampled columns [N * groups, C / groups, elements, out].  Positions are float32 where the data has 16 bits. */
static ValueId emit_columns(Graph *g, const Node *n, const Window *w)
{
    const Value *x = in_value(g, n, X);
    const DType t = x->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32;
    const int64_t groups = node_int(n, "offset_group"), elements = window_numel(w->kernel), out = window_numel(w->out);
    const int64_t samples = x->shape->dim[0] * groups, channels = x->shape->dim[1] / groups;
    const Shape offsets = SHAPE(samples, elements, w->rank, out), mask = SHAPE(samples, 1, elements, out);
    const Shape sampled = SHAPE(samples, channels, elements, out);
    const Shape grid = w->rank == 1   ? SHAPE(samples, elements * out, 1)
                       : w->rank == 2 ? SHAPE(samples, elements, out, 2)
                                      : SHAPE(samples, elements, out, 1, 3);
    Shape data = *x->shape;
    ValueId places = emit_cast(g, n->in[OFFSET], t), columns = emit_cast(g, n->in[X], t);

    data.dim[0] = samples;
    data.dim[1] = channels;
    places = emit_reshape(g, places, &offsets);
    places = EMIT(g, Add, NULL, places, emit_places(g, t, w));
    places = emit_transpose(g, places, 4, (int64_t[]){ 0, 1, 3, 2 });
    places = emit_reshape(g, places, &grid);
    columns = EMIT(g, GridSample, ATTRS(INT("elements", 1)), emit_reshape(g, columns, &data), places);
    columns = emit_reshape(g, emit_cast(g, columns, x->dtype), &sampled);
    return has_in(n, MASK) ? EMIT(g, Mul, NULL, columns, emit_reshape(g, n->in[MASK], &mask)) : columns;
}

static Status deform_conv_lower(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, X)->shape, *w = in_value(g, n, W)->shape, y = *value(g, n->out[0])->shape;
    const int64_t group = node_int(n, "group"), m = w->dim[0] / group, depth = shape_count(w, 1, w->rank);
    const Shape filters = SHAPE(group, m, depth), taken = SHAPE(x->dim[0], group, depth, shape_count(&y, 2, y.rank));
    Shape bias = { .rank = y.rank, .dim = { 1, y.dim[1], 1, 1, 1 } };
    ValueId out, columns;
    Window win;

    window_read(&win, n, x, &y, w->dim + 2);
    columns = emit_reshape(g, emit_columns(g, n, &win), &taken);
    out = EMIT(g, MatMul, NULL, emit_reshape(g, n->in[W], &filters), columns);
    out = emit_reshape(g, out, &y);
    if (has_in(n, B))
        out = EMIT(g, Add, NULL, out, emit_reshape(g, n->in[B], &bias));
    if (!g->status)
        graph_replace(g, n->out[0], out);
    return g->status;
}

static int64_t deform_conv_flops(const Graph *g, const Node *n)
{
    const Shape *w = in_value(g, n, W)->shape, *y = value(g, n->out[0])->shape;

    return 2 * shape_numel(y) * shape_count(w, 1, w->rank);
}

DEFINE_OP(DeformConv, .precision = PREC_LOW, .since = 22, .from = 19, .in_min = 3, .in_max = 5, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT, .param_in = 1 << W | 1 << B,
          .attrs = (const AttrDecl[]){ { "kernel_shape", A_INTS, .range = R_STEPS },
                                       { "strides", A_INTS, .range = R_STEPS },
                                       { "pads", A_INTS, .range = R_PADS },
                                       { "dilations", A_INTS, .range = R_STEPS },
                                       { "group", A_INT, .i = 1, .range = R_POSITIVE },
                                       { "offset_group", A_INT, .i = 1, .range = R_POSITIVE },
                                       { 0 } },
          .infer = deform_conv_infer, .lower = deform_conv_lower, .flops = deform_conv_flops,
          .doc = "a convolution of elements that are taken where offsets say");
