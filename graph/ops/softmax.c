/* Softmax: y = exp(x - max(x)) / sum(exp(x - max(x))) along one axis; LogSoftmax: its logarithm. */
#include "graph/grad.h"
#include "graph/place.h"

/* Up to opset 12 the input was taken as a matrix, dimensions from `axis` (default 1) on flattened: the reduction went over
 * all of them.  The same as ours when `axis` is the last one or the later ones are 1; else reshape around it. */
static Status import(Graph *g, Node *n, int opset)
{
    if (opset >= 13)
        return ST_OK;
    if (!node_attr(n, "axis"))
        node_set_int(g, n, "axis", 1);
    node_set_int(g, n, "flatten", 1);
    return g->status;
}

static Status infer(Graph *g, Node *n)
{
    TRY(infer_axis(g, n, in_value(g, n, 0)->shape.rank));
    return infer_like(g, n, 0);
}

/* The flattened form becomes Reshape, Softmax over the last axis, Reshape. */
static Status lower(Graph *g, Node *n)
{
    const OpDef *op = n->op;
    ValueId y;
    Shape x, flat;
    int64_t axis = node_int(n, "axis");

    if (!node_int(n, "flatten"))
        return ST_OK;
    x = in_value(g, n, 0)->shape;
    if (shape_count(&x, (int)axis + 1, x.rank) == 1 && x.dim[axis] != 0) {
        node_set_int(g, n, "flatten", 0);
        return g->status;
    }
    flat = SHAPE(shape_count(&x, 0, (int)axis), shape_count(&x, (int)axis, x.rank));
    y = emit(g, op, ATTRS(INT("axis", 1)), 1, (ValueId[]){ emit_reshape(g, n->in[0], &flat) });
    graph_replace(g, n->out[0], emit_reshape(g, y, &x));
    return g->status;
}

/* dx = y * (dy - sum(dy * y)).  Written in y, not x, so that the memory planner may drop x after the forward pass. */
static Status grad_softmax(Grad *gr)
{
    Graph *g = grad_graph(gr);
    ValueId y = grad_out(gr, 0), dy = grad_dout(gr, 0);
    int64_t axis = node_int(grad_node(gr), "axis");
    ValueId s = emit_reduce_sum(g, EMIT(g, Mul, NULL, dy, y), 1, &axis, true);

    grad_set(gr, 0, EMIT(g, Mul, NULL, y, EMIT(g, Sub, NULL, dy, s)));
    return g->status;
}

/* dx = dy - exp(y) * sum(dy). */
static Status grad_log_softmax(Grad *gr)
{
    Graph *g = grad_graph(gr);
    ValueId y = grad_out(gr, 0), dy = grad_dout(gr, 0);
    int64_t axis = node_int(grad_node(gr), "axis");
    ValueId s = emit_reduce_sum(g, dy, 1, &axis, true);
    ValueId p = EMIT(g, Exp, NULL, y);

    grad_set(gr, 0, EMIT(g, Sub, NULL, dy, EMIT(g, Mul, NULL, p, s)));
    return g->status;
}

static const AttrDecl attrs[] = { { "axis", A_INT, -1, 0, false, NULL }, { "flatten", A_INT, 0, 0, ATTR_OURS, NULL }, { 0 } };

DEFINE_OP(Softmax, .since = 13, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
    .dtypes = DTYPES_FLOAT, .inplace = { 1 }, .attrs = attrs,
    .doc = "y = exp(x) / sum(exp(x)) along axis",
    .import = import, .infer = infer, .grad = grad_softmax, .lower = lower, .place = place_all_but_axis);

DEFINE_OP(LogSoftmax, .since = 13, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
    .dtypes = DTYPES_FLOAT, .inplace = { 1 }, .attrs = attrs,
    .doc = "y = x - log(sum(exp(x))) along axis",
    .import = import, .infer = infer, .grad = grad_log_softmax, .lower = lower, .place = place_all_but_axis);
