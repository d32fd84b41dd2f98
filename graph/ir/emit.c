/* Formulas as graphs.  Since types are inferred at once, helpers leave out nodes without effect: a reshape to the same
 * shape, a cast to the same type, a sum over no axes.  So gradients need no special cases. */
#include "graph/ir/emit.h"

#include <assert.h>

#include "graph/ops/cast.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/view.gen.h"

Node *emit_multi(Graph *g, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in, int n_out, ValueId *out)
{
    Node *n = graph_add_node(g, op, NULL, attrs, n_in, in, n_out, NULL);

    for (int i = 0; i < n_out; i++)
        out[i] = n ? n->out[i] : NO_VALUE;
    if (!n)
        return NULL;
    if (!(g->status = node_normalise(g, n)))
        g->status = node_infer(g, n);
    return g->status ? NULL : n;
}

ValueId emit(Graph *g, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in)
{
    ValueId out[8] = { NO_VALUE };

    assert(op->out_min <= 8);
    emit_multi(g, op, attrs, n_in, in, op->out_min ? op->out_min : 1, out);
    return g->status ? NO_VALUE : out[0];
}

static ValueId add_const(Graph *g, DType dtype, const Shape *s, const int64_t *ints, double v)
{
    Tensor *t = g->status ? NULL : tensor_create(g->arena, dtype, s);

    if (!t) {
        if (!g->status)
            g->status = FAIL_NOMEM();
        return NO_VALUE;
    }
    for (int64_t i = 0; i < tensor_numel(t); i++)
        ints ? tensor_set_int(t, i, ints[i]) : tensor_set_float(t, i, v);
    return graph_add_const_nocopy(g, "const", t);
}

ValueId emit_scalar(Graph *g, DType dtype, double v)
{
    Shape s = shape_scalar();

    return add_const(g, dtype, &s, NULL, v);
}

ValueId emit_ints(Graph *g, int n, const int64_t *v)
{
    Shape s = SHAPE(n);

    return add_const(g, DT_INT64, &s, v, 0);
}

ValueId emit_shape_const(Graph *g, const Shape *s) { return emit_ints(g, s->rank, s->dim); }

ValueId emit_full(Graph *g, DType dtype, const Shape *s, double v)
{
    return emit_expand(g, emit_scalar(g, dtype, v), s);
}

ValueId emit_slice(Graph *g, ValueId x, int64_t axis, int64_t from, int64_t to)
{
    const ValueId begin = emit_ints(g, 1, &from), end = emit_ints(g, 1, &to);

    return EMIT(g, Slice, NULL, x, begin, end, emit_ints(g, 1, &axis));
}

ValueId emit_slice_by(Graph *g, ValueId x, int64_t axis, int64_t from, int64_t to, int64_t by)
{
    const ValueId begin = emit_ints(g, 1, &from), end = emit_ints(g, 1, &to), axes = emit_ints(g, 1, &axis);

    return EMIT(g, Slice, NULL, x, begin, end, axes, emit_ints(g, 1, &by));
}

ValueId emit_zeros_like(Graph *g, ValueId like)
{
    return g->status ? NO_VALUE : emit_full(g, value(g, like)->dtype, value(g, like)->shape, 0);
}

ValueId emit_reshape(Graph *g, ValueId x, const Shape *s)
{
    if (g->status || shape_eq(value(g, x)->shape, s))
        return x;
    return EMIT(g, Reshape, ATTRS(INT("allowzero", 1)), x, emit_shape_const(g, s));
}

ValueId emit_fit(Graph *g, ValueId x, const Shape *s)
{
    int64_t pads[2 * MAX_RANK] = { 0 };
    const Shape *from;

    if (g->status || shape_eq(from = value(g, x)->shape, s))
        return x;
    for (int i = 0; i < s->rank; i++)
        pads[s->rank + i] = s->dim[i] - from->dim[i];
    return EMIT(g, Pad, NULL, x, emit_ints(g, 2 * s->rank, pads));
}

ValueId emit_expand(Graph *g, ValueId x, const Shape *s)
{
    if (g->status || shape_eq(value(g, x)->shape, s))
        return x;
    return EMIT(g, Expand, NULL, x, emit_shape_const(g, s));
}

ValueId emit_cast(Graph *g, ValueId x, DType to)
{
    if (g->status || value(g, x)->dtype == to)
        return x;
    return EMIT(g, Cast, ATTRS(INT("to", to)), x);
}

ValueId emit_transpose(Graph *g, ValueId x, int rank, const int64_t *perm)
{
    return EMIT(g, Transpose, ATTRS(INTS("perm", rank, perm)), x);
}

ValueId emit_reduce_sum(Graph *g, ValueId x, int n_axes, const int64_t *axes, bool keepdims)
{
    if (!n_axes)
        return x;
    return EMIT(g, ReduceSum, ATTRS(INT("keepdims", keepdims)), x, emit_ints(g, n_axes, axes));
}

ValueId emit_sum_to_shape(Graph *g, ValueId x, const Shape *s)
{
    int64_t axes[MAX_RANK];
    int n = 0, lead;
    Shape from;

    if (g->status)
        return NO_VALUE;
    from = *value(g, x)->shape;
    lead = from.rank - s->rank;
    assert(lead >= 0);
    for (int i = 0; i < from.rank; i++)
        if (i < lead || (s->dim[i - lead] == 1 && from.dim[i] != 1))
            axes[n++] = i;
    return emit_reshape(g, emit_reduce_sum(g, x, n, axes, true), s);
}
