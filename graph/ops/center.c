/* CenterCropPad: axes cropped or zero-padded at both ends to given sizes; an odd difference goes to the end. */
#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/layout.gen.h"

/* The shape of the output; E_SHAPE for sizes that do not fit the axes. */
static Status read_shape(Shape *y, const Graph *g, const Node *n)
{
    int count, n_size, axis;
    const int64_t *axes = node_ints(n, "axes", &count);
    int64_t size[MAX_RANK];

    *y = *in_value(g, n, 0)->shape;
    TRY(value_const_ints(g, n->in[1], size, MAX_RANK, &n_size));
    if (n_size != (count ? count : y->rank))
        return FAIL(E_SHAPE, "%s: %d sizes for %d axes", node_text(g, n), n_size, count ? count : y->rank);
    for (int i = 0; i < n_size; i++) {
        if (size[i] < 0)
            return FAIL(E_SHAPE, "%s: a negative size", node_text(g, n));
        TRY(shape_axis(&axis, count ? axes[i] : i, y->rank, node_text(g, n)));
        y->dim[axis] = size[i];
    }
    return ST_OK;
}

static Status center_infer(Graph *g, Node *n)
{
    Shape y = shape_unknown();

    if (value_const(g, n->in[1]))
        TRY(read_shape(&y, g, n));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return g->status;
}

static Status center_lower(Graph *g, Node *n)
{
    const Shape x = *in_value(g, n, 0)->shape;
    int64_t from[MAX_RANK], to[MAX_RANK], axes[MAX_RANK], pads[2 * MAX_RANK] = { 0 };
    ValueId y = n->in[0];
    int cut = 0, padded = 0;
    Shape wanted;

    if (!value_const(g, n->in[1]))
        return FAIL(E_UNSUPPORTED, "%s: the sizes depend on data, expected constants", node_text(g, n));
    TRY(read_shape(&wanted, g, n));
    for (int a = 0; a < x.rank; a++) {
        const int64_t less = x.dim[a] - wanted.dim[a], more = -less;

        if (less > 0) {
            axes[cut] = a;
            from[cut] = less / 2;
            to[cut++] = less / 2 + wanted.dim[a];
        } else if (more > 0) {
            pads[a] = more / 2;
            pads[x.rank + a] = more - more / 2;
            padded++;
        }
    }
    if (cut) {
        const ValueId begin = emit_ints(g, cut, from), end = emit_ints(g, cut, to);

        y = EMIT(g, Slice, NULL, y, begin, end, emit_ints(g, cut, axes));
    }
    if (padded)
        y = EMIT(g, Pad, NULL, y, emit_ints(g, 2 * x.rank, pads));
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

DEFINE_OP(CenterCropPad, .since = 18, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_ALL | DTYPES_TEXT, .attrs = (const AttrDecl[]){ { "axes", A_INTS, .range = R_AXIS }, { 0 } },
          .doc = "axes cut or filled up with zeros at both ends", .infer = center_infer, .lower = center_lower);
