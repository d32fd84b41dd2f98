/* MaxUnpool: puts MaxPool's results at their indices, and zeros elsewhere.
 *
 * Indices are flat indices into the whole batch that was pooled, whose sizes follow from the window.  A larger
 * output_shape pads each axis at its end, a smaller one cuts it, as in onnx.reference.  An index must lie in its own
 * sample and channel, as MaxPool's do, so that both axes can be split; any other is an error at run time.  An element
 * that several windows chose passes its gradient to each of them, as in PyTorch. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "graph/ir/readers.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/pool.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/where.gen.h"
#include "graph/ops/window.h"

/* Reads output_shape into *y.  *known is false, and *y unset, if it is absent or depends on data. */
static Status read_asked(const Graph *g, const Node *n, Shape *y, bool *known)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int count;

    *known = has_in(n, 2) && value_const(g, n->in[2]);
    if (!*known)
        return ST_OK;
    TRY(value_const_ints(g, n->in[2], y->dim, MAX_RANK, &count));
    y->rank = x->rank;
    if (count != x->rank)
        return FAIL(E_SHAPE, "%s: output_shape has %d entries for an input of rank %d", node_text(g, n), count,
                    x->rank);
    for (int i = 0; i < 2; i++)
        if (y->dim[i] != x->dim[i])
            return FAIL(E_SHAPE, "%s: output_shape[%d] is %lld, expected %lld", node_text(g, n), i,
                        (long long)y->dim[i], (long long)x->dim[i]);
    return shape_check(y, sizeof(double)); /* the largest element type */
}

/* If the indices come from a MaxPool whose input has the requested shape, sets the pads at the end so that the window
 * gives that shape: strides may have left elements uncovered.  The window must be complete. */
static void fit_pads(Graph *g, Node *n, const Shape *asked)
{
    const Node *pool = made_by(g, n->in[1], &op_MaxPool);
    const Shape *x = in_value(g, n, 0)->shape;
    const int rank = x->rank - 2;
    int64_t pads[2 * WINDOW_AXES];
    int count;
    const int64_t *kernel = node_ints(n, "kernel_shape", &count), *strides = node_ints(n, "strides", &count);

    if (!pool || !has_out(pool, 1) || !value_eq(pool->out[1], n->in[1]) ||
        !shape_eq(in_value(g, pool, 0)->shape, asked))
        return;
    memcpy(pads, node_ints(n, "pads", &count), (size_t)(2 * rank) * sizeof *pads);
    for (int i = 0; i < rank; i++)
        pads[rank + i] = (x->dim[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - asked->dim[2 + i];
    node_set_ints(g, n, "pads", 2 * rank, pads);
}

/* Checks the window's rank and sizes, and gives it strides and pads where the model has none. */
static Status complete_window(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    const int rank = x->rank - 2;
    int count;

    (void)node_ints(n, "kernel_shape", &count);
    if (rank < 1 || rank > WINDOW_AXES)
        return FAIL(E_SHAPE, "%s: input of rank %d, expected [batch, channels] and 1 to %d spatial axes",
                    node_text(g, n), x->rank, WINDOW_AXES);
    if (count != rank)
        return FAIL(E_SHAPE, "%s: kernel_shape has %d entries for an input of rank %d", node_text(g, n), count,
                    x->rank);
    for (int i = 0; i < rank; i++)
        if (x->dim[2 + i] >= INT32_MAX)
            return FAIL(E_SHAPE, "%s: dimension %d is %lld, expected less than %d", node_text(g, n), i + 2,
                        (long long)x->dim[2 + i], INT32_MAX);
    TRY(window_list(g, n, "strides", rank, 1, 1));
    return window_list(g, n, "pads", 2 * rank, 0, -INT32_MAX);
}

/* The shape of the tensor that was pooled; the window must be complete. */
static Status pooled_shape(const Graph *g, const Node *n, Shape *y)
{
    const Shape *x = in_value(g, n, 0)->shape;
    const int rank = x->rank - 2;
    int count;
    const int64_t *kernel = node_ints(n, "kernel_shape", &count), *strides = node_ints(n, "strides", &count);
    const int64_t *pads = node_ints(n, "pads", &count);

    *y = *x;
    for (int i = 0; i < rank; i++) {
        y->dim[2 + i] = (x->dim[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i];
        if (!x->dim[2 + i])
            return FAIL(E_SHAPE, "%s: axis %d is empty", node_text(g, n), i + 2);
        if (y->dim[2 + i] < 1)
            return FAIL(E_SHAPE, "%s: the pads of axis %d exceed it", node_text(g, n), i + 2);
    }
    return shape_check(y, sizeof(double)); /* the largest element type */
}

static Status unpool_infer(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0), *index = in_value(g, n, 1);
    Shape y, asked;
    bool known;

    if (index->dtype != DT_INT64 || !shape_eq(index->shape, x->shape))
        return FAIL(E_SHAPE, "%s: expected int64 indices of the shape of the input", node_text(g, n));
    TRY(complete_window(g, n));
    TRY(read_asked(g, n, &asked, &known));
    if (known)
        fit_pads(g, n, &asked);
    TRY(pooled_shape(g, n, &y));
    if (has_in(n, 2))
        y = known ? asked : shape_unknown();
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

static ValueId emit_planes(Graph *g, ValueId x, const Shape *s)
{
    const Shape planes = SHAPE(s->dim[0], s->dim[1], shape_count(s, 2, s->rank));

    return emit_reshape(g, x, &planes);
}

static Status unpool_lower(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const Shape y = *value(g, n->out[0])->shape;
    Shape pooled, planes;
    ValueId zeros, index, values, out, before;

    if (!shape_known(&y))
        return FAIL(E_UNSUPPORTED, "%s: output_shape depends on data, expected a constant", node_text(g, n));
    TRY(pooled_shape(g, n, &pooled));
    planes = SHAPE(pooled.dim[0], pooled.dim[1], shape_count(&pooled, 2, pooled.rank));
    /* An index of an earlier plane is negative, which ScatterElements would count from the end; the plane's size makes
     * it an error. */
    index = EMIT(g, Sub, NULL, n->in[1], emit_plane_starts(g, x->shape, planes.dim[2]));
    before = EMIT(g, Less, NULL, index, emit_scalar(g, DT_INT64, 0));
    index = EMIT(g, Where, NULL, before, emit_scalar(g, DT_INT64, (double)planes.dim[2]), index);
    index = emit_planes(g, index, x->shape);
    zeros = emit_full(g, x->dtype, &planes, 0);
    values = emit_planes(g, n->in[0], x->shape);
    out = EMIT(g, ScatterElements, ATTRS(INT("axis", 2)), zeros, index, values);
    out = emit_fit(g, emit_reshape(g, out, &pooled), &y);
    if (!g->status)
        graph_replace(g, n->out[0], out);
    return g->status;
}

DEFINE_OP(MaxUnpool, .since = 22, .from = 9, .in_min = 2, .in_max = 3, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ { "kernel_shape", A_INTS, .rule = ATTR_REQUIRED, .range = R_STEPS },
                                       { "strides", A_INTS, .range = R_STEPS },
                                       { "pads", A_INTS, .range = R_PADS },
                                       { 0 } },
          .infer = unpool_infer, .lower = unpool_lower, .doc = "MaxPool's results at their indices, zeros elsewhere");
