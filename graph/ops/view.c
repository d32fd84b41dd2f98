/* Operators that keep the bytes: Reshape, Flatten, Squeeze, Unsqueeze, Identity, StopGradient; and Reorder, which
 * changes the layout. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/view.gen.h"

/* ---- Reshape ---- */

/* Replaces 0 by the dimension of x, and -1 by the remaining number of elements.  Copied dimensions of size 0 do not
 * count for that, so [0, -1] flattens an empty batch, too. */
static Status resolve_shape(const Graph *g, const Node *n, const Shape *x, Shape *y)
{
    int64_t known = 1, total = 1;
    int remains = -1;
    unsigned copied = 0;

    for (int i = 0; i < y->rank; i++) {
        if (y->dim[i] < -1 || (y->dim[i] == -1 && remains >= 0))
            return FAIL(E_SHAPE, "%s: dimension %d of the shape is %lld, expected 0 or more, and -1 once at most",
                        node_text(g, n), i, (long long)y->dim[i]);
        if (y->dim[i] == 0 && !node_int(n, "allowzero")) {
            if (i >= x->rank)
                return FAIL(E_SHAPE, "%s: dimension %d is to be copied from an input of rank %d", node_text(g, n), i,
                            x->rank);
            y->dim[i] = x->dim[i];
            copied |= x->dim[i] ? 0 : 1u << i;
        }
        if (y->dim[i] == -1)
            remains = i;
        else if (!(copied >> i & 1) && __builtin_mul_overflow(known, y->dim[i], &known))
            return FAIL(E_SHAPE, "%s: the shape overflows", node_text(g, n));
    }
    for (int i = 0; i < x->rank; i++)
        total *= copied >> i & 1 ? 1 : x->dim[i];
    if (remains >= 0)
        y->dim[remains] = known ? total / known : 0;
    return ST_OK;
}

/* The shape was an attribute up to opset 4. */
static Status import_reshape(Graph *g, Node *n, int opset)
{
    return opset < 5 ? import_attr_to_input(g, n, "shape", 1) : ST_OK;
}

static Status infer_reshape(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = { 0 }, unknown = shape_unknown();
    char from[SHAPE_TEXT], to[SHAPE_TEXT];

    set_out(g, n, 0, x->dtype, &unknown);
    if (!value_const(g, n->in[1]))
        return ST_OK;
    TRY(value_const_ints(g, n->in[1], y.dim, MAX_RANK, &y.rank));
    TRY(resolve_shape(g, n, x->shape, &y));
    TRY(shape_check(&y, dtype_size(x->dtype)));
    if (shape_numel(&y) != shape_numel(x->shape))
        return FAIL(E_SHAPE, "%s: shape %s cannot become %s", node_text(g, n), shape_text(x->shape, from),
                    shape_text(&y, to));
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static Status grad_reshape(Grad *gr)
{
    grad_set(gr, 0, emit_reshape(gr->g, grad_dout(gr, 0), grad_in_value(gr, 0)->shape));
    return gr->g->status;
}

static bool respell_reshape(Graph *g, Node *n, int opset)
{
    (void)g;
    (void)opset;
    return respell_without(g, n, "allowzero");
}

DEFINE_OP(Reshape, .same = SAME_SHAPED, .blocks = BLOCKS_OWN, .layout = LAYOUT_ANY, .since = 14, .in_min = 2,
          .in_max = 2, .out_min = 1, .out_max = 1, .flags = OPF_VIEW, .shape_in = 2,
          .attrs = (const AttrDecl[]){ { "allowzero", A_INT, .i = 0 }, { 0 } }, .inplace = { 1 },
          .import = import_reshape, .respell = respell_reshape, .infer = infer_reshape, .grad = grad_reshape,
          .place = place_reshape, .doc = "x under another shape of the same size");

/* ---- Flatten ---- */

static Status infer_flatten(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    int64_t axis = node_int(n, "axis");
    Shape y;

    if (axis < -x->shape->rank || axis > x->shape->rank)
        return FAIL(E_SHAPE, "%s: axis %lld of rank %d", node_text(g, n), (long long)axis, x->shape->rank);
    if (axis < 0)
        node_set_int(g, n, "axis", axis += x->shape->rank);
    y = SHAPE(shape_count(x->shape, 0, (int)axis), shape_count(x->shape, (int)axis, x->shape->rank));
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

/* Axes before the split axis, in the same half, become its blocks. */
static Status place_flatten(Placement *p)
{
    const Shape *x = in_value(p->g, p->node, 0)->shape;
    int axis = (int)node_int(p->node, "axis");
    Place at = p->in[0];

    if (at.kind == PL_S && at.axis < axis)
        at = PLACE_ROWS(0, shape_count(x, 0, at.axis) * at.blocks);
    else if (at.kind == PL_S)
        at = PLACE_ROWS(1, shape_count(x, axis, at.axis) * at.blocks);
    if (at.kind == PL_S && at.blocks < 1)
        at = p->in[0] = PLACE_B;
    place_set(p, 0, at);
    return ST_OK;
}

DEFINE_OP(Flatten, .same = SAME_SHAPED, .blocks = BLOCKS_OWN, .since = 13, .from = 1, .in_min = 1, .in_max = 1,
          .out_min = 1, .out_max = 1, .flags = OPF_VIEW, .inplace = { 1 },
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .i = 1, .range = R_CUT }, { 0 } }, .infer = infer_flatten,
          .grad = grad_reshape, .place = place_flatten, .doc = "x as a matrix, cut before axis");

/* ---- Squeeze, Unsqueeze ---- */

static Status import_axes(Graph *g, Node *n, int opset)
{
    return opset < 13 ? import_attr_to_input(g, n, "axes", 1) : ST_OK;
}

static bool respell_axes(Graph *g, Node *n, int opset)
{
    (void)opset;
    return respell_input_to_attr(g, n, 1, "axes");
}

/* The constant axes as a mask over `rank` dimensions. */
static Status axes_mask(const Graph *g, const Node *n, int rank, unsigned *mask)
{
    int64_t axes[MAX_RANK];
    int count, axis;

    *mask = 0;
    TRY(value_const_ints(g, n->in[1], axes, MAX_RANK, &count));
    for (int i = 0; i < count; i++) {
        TRY(shape_axis(&axis, axes[i], rank, node_text(g, n)));
        if (*mask >> axis & 1)
            return FAIL(E_SHAPE, "%s: axis %d is named twice", node_text(g, n), axis);
        *mask |= 1u << axis;
    }
    return ST_OK;
}

static Status infer_squeeze(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = shape_unknown();
    int64_t axes[MAX_RANK];
    unsigned mask;
    int count = 0;
    char text[SHAPE_TEXT];

    set_out(g, n, 0, x->dtype, &y);
    if (!has_in(n, 1)) { /* every dimension of 1; made explicit, since a replica's part may have one sample */
        for (int i = 0; i < x->shape->rank; i++)
            if (x->shape->dim[i] == 1)
                axes[count++] = i;
        node_set_input(g, n, 1, emit_ints(g, count, axes));
    }
    if (g->status || !value_const(g, n->in[1]))
        return g->status;
    TRY(axes_mask(g, n, x->shape->rank, &mask));
    y.rank = 0;
    for (int i = 0; i < x->shape->rank; i++)
        if (!(mask >> i & 1))
            y.dim[y.rank++] = x->shape->dim[i];
        else if (x->shape->dim[i] != 1)
            return FAIL(E_SHAPE, "%s: dimension %d of %s is not 1", node_text(g, n), i, shape_text(x->shape, text));
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static Status infer_unsqueeze(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = shape_unknown();
    const Tensor *axes = value_const(g, n->in[1]);
    unsigned mask;

    set_out(g, n, 0, x->dtype, &y);
    if (!axes)
        return ST_OK;
    if (tensor_numel(axes) > MAX_RANK - x->shape->rank)
        return FAIL(E_SHAPE, "%s: more than %d dimensions", node_text(g, n), MAX_RANK);
    y.rank = x->shape->rank + (int)tensor_numel(axes);
    TRY(axes_mask(g, n, y.rank, &mask));
    for (int i = 0, j = 0; i < y.rank; i++)
        y.dim[i] = mask >> i & 1 ? 1 : x->shape->dim[j++];
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static Status grad_squeeze(Grad *gr)
{
    grad_set(gr, 0, EMIT(gr->g, Unsqueeze, NULL, grad_dout(gr, 0), grad_in(gr, 1)));
    return gr->g->status;
}

static Status grad_unsqueeze(Grad *gr)
{
    grad_set(gr, 0, EMIT(gr->g, Squeeze, NULL, grad_dout(gr, 0), grad_in(gr, 1)));
    return gr->g->status;
}

static Status place_squeeze(Placement *p)
{
    int rank = in_value(p->g, p->node, 0)->shape->rank, to[MAX_RANK], j = 0;
    unsigned mask;

    TRY(axes_mask(p->g, p->node, rank, &mask));
    for (int a = 0; a < rank; a++)
        to[a] = mask >> a & 1 ? -1 : j++;
    return place_moved(p, to, "it removes the batch axis");
}

static Status place_unsqueeze(Placement *p)
{
    int rank = value(p->g, p->node->out[0])->shape->rank, to[MAX_RANK], a = 0;
    unsigned mask;

    TRY(axes_mask(p->g, p->node, rank, &mask));
    for (int j = 0; j < rank; j++)
        if (!(mask >> j & 1))
            to[a++] = j;
    return place_moved(p, to, "");
}

DEFINE_OP(Squeeze, .same = SAME_SHAPED, .rows = ROWS_SHAPED, .blocks = BLOCKS_PASS, .layout = LAYOUT_ANY, .since = 13,
          .in_min = 1, .in_max = 2, .out_min = 1, .out_max = 1, .flags = OPF_VIEW, .inplace = { 1 },
          .import = import_axes, .respell = respell_axes, .infer = infer_squeeze, .grad = grad_squeeze,
          .place = place_squeeze, .doc = "x without the dimensions of 1 named by axes (all of them when absent)");

DEFINE_OP(Unsqueeze, .same = SAME_SHAPED, .rows = ROWS_SHAPED, .blocks = BLOCKS_PASS, .layout = LAYOUT_ANY, .since = 13,
          .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, .flags = OPF_VIEW, .inplace = { 1 },
          .import = import_axes, .respell = respell_axes, .infer = infer_unsqueeze, .grad = grad_unsqueeze,
          .place = place_unsqueeze, .doc = "x with dimensions of 1 at axes of the result");

/* ---- Identity ---- */

static Status infer_identity(Graph *g, Node *n) { return infer_like(g, n, 0); }

static Status grad_identity(Grad *gr)
{
    grad_set(gr, 0, grad_dout(gr, 0));
    return gr->g->status;
}

DEFINE_OP(Identity, .same = SAME_TENSOR, .rows = ROWS_KEPT, .blocks = BLOCKS_PASS, .layout = LAYOUT_ANY, .since = 13,
          .from = 1, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .flags = OPF_VIEW, .inplace = { 1 },
          .infer = infer_identity, .grad = grad_identity, .place = place_linear, .doc = "x");

/* ---- StopGradient ---- */

DEFINE_OP(StopGradient, .domain = "dpexec", .plain = "Identity", .same = SAME_TENSOR, .blocks = BLOCKS_PASS,
          .layout = LAYOUT_ANY, .since = 1, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .flags = OPF_VIEW | OPF_ZERO_GRAD, .inplace = { 1 }, .infer = infer_identity, .grad = grad_none,
          .train = train_alone, .place = place_linear, .doc = "x, which gets no gradient");

/* ---- layouts ---- */

static Status infer_reorder(Graph *g, Node *n)
{
    int64_t to = node_int(n, "layout");
    char shape[SHAPE_TEXT];

    if (to < 0 || to >= N_LAYOUTS)
        return FAIL(E_MODEL, "%s: there is no layout %lld", node_text(g, n), (long long)to);
    TRY(infer_like(g, n, 0));
    if (!layout_holds((Layout)to, value(g, n->out[0])->shape))
        return FAIL(E_SHAPE, "%s: a shape of %s, which cannot be stored %s", node_text(g, n),
                    shape_text(value(g, n->out[0])->shape, shape), layout_name((Layout)to));
    value(g, n->out[0])->layout = (Layout)to;
    return ST_OK;
}

/* passes/plan/layout.c makes it; the interpreter, which stores all values by rows, copies. */
DEFINE_OP(Reorder, .flops_of = FLOPS_OF_NOTHING, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = 1, .attrs = (const AttrDecl[]){ { "layout", A_INT, .rule = ATTR_REQUIRED }, { 0 } },
          .doc = "the same value stored in another layout", .infer = infer_reorder, .grad = grad_none,
          .place = place_linear);
