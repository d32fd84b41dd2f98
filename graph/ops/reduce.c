/* Reductions along axes. */
#include "graph/grad.h"
#include "graph/place.h"

/* The axes as a mask; all of them when the input is absent or empty, unless noop_with_empty_axes. */
static Status axes_mask(const Graph *g, const Node *n, unsigned *mask)
{
    int rank = in_value(g, n, 0)->shape.rank, count = 0, axis;
    int64_t axes[MAX_RANK];

    *mask = 0;
    if (has_in(n, 1))
        TRY(value_const_ints(g, n->in[1], axes, MAX_RANK, &count));
    for (int i = 0; i < count; i++) {
        TRY(shape_axis(&axis, axes[i], rank, node_text(g, n)));
        *mask |= 1u << axis;
    }
    if (!count && !node_int(n, "noop_with_empty_axes"))
        *mask = (1u << rank) - 1;
    return ST_OK;
}

static Status infer(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = { 0 };
    unsigned mask;

    TRY(axes_mask(g, n, &mask));
    for (int i = 0; i < x->shape.rank; i++)
        if (!(mask >> i & 1))
            y.dim[y.rank++] = x->shape.dim[i];
        else if (node_int(n, "keepdims"))
            y.dim[y.rank++] = 1;
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

/* The shape of y with the reduced dimensions as 1. */
static Status kept_shape(Grad *gr, Shape *kept)
{
    unsigned mask;

    TRY(axes_mask(gr->g, gr->node, &mask));
    *kept = grad_in_value(gr, 0)->shape;
    for (int i = 0; i < kept->rank; i++)
        if (mask >> i & 1)
            kept->dim[i] = 1;
    return ST_OK;
}

static Status grad_sum(Grad *gr)
{
    Shape kept;

    TRY(kept_shape(gr, &kept));
    grad_set(gr, 0, emit_expand(gr->g, emit_reshape(gr->g, grad_dout(gr, 0), &kept), &grad_in_value(gr, 0)->shape));
    return gr->g->status;
}

static const AttrDecl attrs[] = { { "keepdims", A_INT, 1, 0, false, NULL }, { "noop_with_empty_axes", A_INT, 0, 0, false, NULL }, { 0 } };

DEFINE_OP(ReduceSum, .since = 13, .in_min = 1, .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_NUMERIC, .attrs = attrs,
    .infer = infer, .grad = grad_sum, .doc = "sum along axes");
