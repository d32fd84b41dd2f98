/* Softmax: y = exp(x - max(x)) / sum(exp(x - max(x))) along one axis; LogSoftmax: its logarithm. */
#include "graph/grad.h"
#include "graph/place.h"

/* Up to opset 12 the input was taken as a matrix, dimensions from `axis` (default 1) on flattened: the sum goes over all of
 * them. */
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
    const Shape *x = &in_value(g, n, 0)->shape;

    TRY(infer_axis(g, n, x->rank));
    if (shape_count(x, (int)node_int(n, "axis") + 1, x->rank) == 1)
        node_set_int(g, n, "flatten", 0);
    return infer_like(g, n, 0);
}

/* The axes along which the sums run. */
static int sum_axes(const Graph *g, const Node *n, int64_t axes[MAX_RANK])
{
    int from = (int)node_int(n, "axis"), to = node_int(n, "flatten") ? in_value(g, n, 0)->shape.rank : from + 1;

    for (int k = from; k < to; k++)
        axes[k - from] = k;
    return to - from;
}

/* dx = y * (dy - sum(dy * y)).  Written in y, not x, so that the memory planner may drop x after the forward pass. */
static Status grad_softmax(Grad *gr)
{
    Graph *g = grad_graph(gr);
    ValueId y = grad_out(gr, 0), dy = grad_dout(gr, 0);
    int64_t axes[MAX_RANK];
    int count = sum_axes(g, gr->node, axes);
    ValueId s = emit_reduce_sum(g, EMIT(g, Mul, NULL, dy, y), count, axes, true);

    grad_set(gr, 0, EMIT(g, Mul, NULL, y, EMIT(g, Sub, NULL, dy, s)));
    return g->status;
}

/* dx = dy - exp(y) * sum(dy). */
static Status grad_log_softmax(Grad *gr)
{
    Graph *g = grad_graph(gr);
    ValueId y = grad_out(gr, 0), dy = grad_dout(gr, 0);
    int64_t axes[MAX_RANK];
    int count = sum_axes(g, gr->node, axes);
    ValueId s = emit_reduce_sum(g, dy, count, axes, true);
    ValueId p = EMIT(g, Exp, NULL, y);

    grad_set(gr, 0, EMIT(g, Sub, NULL, dy, EMIT(g, Mul, NULL, p, s)));
    return g->status;
}

/* A split along an axis that is summed over is gathered first. */
static Status place(Placement *p)
{
    int64_t axes[MAX_RANK];
    int count = sum_axes(p->g, p->node, axes);

    for (int i = 0; i < count; i++)
        if (p->in[0].kind == PL_S && p->in[0].axis == axes[i]) {
            place_mixes(p, "it works along the split axis");
            p->in[0] = PLACE_B;
        }
    return place_elementwise(p);
}

static const AttrDecl attrs[] = { { "axis", A_INT, -1, 0, false, NULL }, { "flatten", A_INT, 0, 0, ATTR_OURS, NULL }, { 0 } };

DEFINE_OP(Softmax, .since = 13, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
    .dtypes = DTYPES_FLOAT, .inplace = { 1 }, .attrs = attrs,
    .doc = "y = exp(x) / sum(exp(x)) along axis",
    .import = import, .infer = infer, .grad = grad_softmax, .place = place);

DEFINE_OP(LogSoftmax, .since = 13, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
    .dtypes = DTYPES_FLOAT, .inplace = { 1 }, .attrs = attrs,
    .doc = "y = x - log(sum(exp(x))) along axis",
    .import = import, .infer = infer, .grad = grad_log_softmax, .place = place);
