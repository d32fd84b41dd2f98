/* ScatterElements and ScatterND, with their gradients. */
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/tuples.h"

/* Opset 16 added reduction, opset 18 max and min. */
static bool scatter_respell(Graph *g, Node *n, int opset)
{
    const char *how = node_string(n, "reduction");

    (void)g;
    if (opset >= 16)
        return strcmp(how, "max") && strcmp(how, "min");
    return respell_without(g, n, "reduction");
}

static Status check_scatter(const Graph *g, const Node *n)
{
    static const char *const known[] = { "none", "add", "mul", "max", "min" };
    const char *reduction = node_string(n, "reduction");
    DType t = in_value(g, n, 1)->dtype;

    if (t != DT_INT64 && t != DT_INT32)
        return FAIL(E_SHAPE, "%s: indices are %s, expected int32 or int64", node_text(g, n), dtype_name(t));
    if (in_value(g, n, 0)->dtype != in_value(g, n, 2)->dtype)
        return FAIL(E_SHAPE, "%s: updates are %s, expected %s", node_text(g, n), dtype_name(in_value(g, n, 2)->dtype),
                    dtype_name(in_value(g, n, 0)->dtype));
    if (in_value(g, n, 0)->dtype == DT_STRING && strcmp(reduction, "none"))
        return FAIL(E_UNSUPPORTED, "%s: reduction '%s' of strings", node_text(g, n), reduction);
    for (int i = 0; i < 5; i++)
        if (!strcmp(reduction, known[i]))
            return ST_OK;
    return FAIL(E_MODEL, "%s: reduction '%s', expected none, add, mul, max or min", node_text(g, n), reduction);
}

static bool reduces(const Node *n, const char *how) { return !strcmp(node_string(n, "reduction"), how); }

static Status infer_scatter_elements(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *ix = in_value(g, n, 1)->shape;
    int64_t axis;

    TRY(check_scatter(g, n));
    TRY(infer_axis(g, n, x->rank));
    axis = node_int(n, "axis");
    if (ix->rank != x->rank || !shape_eq(ix, in_value(g, n, 2)->shape))
        return FAIL(E_SHAPE, "%s: indices, updates and data do not have the same rank and sizes", node_text(g, n));
    for (int i = 0; i < x->rank; i++)
        if ((i != axis && ix->dim[i] > x->dim[i]) || (i == axis && x->dim[i] == 0 && shape_numel(ix) > 0))
            return FAIL(E_SHAPE, "%s: the indices exceed the data along axis %d", node_text(g, n), i);
    return infer_like(g, n, 0);
}

/* The elements of x at the positions to which the node scatters; `axis` is its attribute, NULL: it has none. */
static ValueId gathered(Grad *gr, const Attr *axis, ValueId x)
{
    return emit(gr->g, axis ? &op_GatherElements : &op_GatherND, axis, 2, (ValueId[]){ x, grad_in(gr, 1) });
}

/* x with `updates` scattered to it as by the node. */
static ValueId scattered(Grad *gr, const Attr *axis, ValueId x, ValueId updates, const char *reduction)
{
    const Attr *attrs =
        axis ? ATTRS(INT("axis", axis->i), STRING("reduction", reduction)) : ATTRS(STRING("reduction", reduction));

    return emit(gr->g, gr->node->op, attrs, 3, (ValueId[]){ x, grad_in(gr, 1), updates });
}

/* 1 where x and y are equal, else 0. */
static ValueId is_same(Graph *g, ValueId x, ValueId y)
{
    return emit_cast(g, EMIT(g, Equal, NULL, x, y), value(g, x)->dtype);
}

/* Reductions max and min: all elements that equal the result get equal shares of its gradient. */
static Status scatter_grad_extreme(Grad *gr, const Attr *axis)
{
    Graph *g = gr->g;
    const ValueId own = is_same(g, grad_in(gr, 0), grad_out(gr, 0)),
                  put = is_same(g, grad_in(gr, 2), gathered(gr, axis, grad_out(gr, 0)));
    const ValueId share = EMIT(g, Div, NULL, grad_dout(gr, 0), scattered(gr, axis, own, put, "add"));

    grad_set(gr, 0, EMIT(g, Mul, NULL, share, own));
    if (grad_wanted(gr, 2))
        grad_set(gr, 2, EMIT(g, Mul, NULL, gathered(gr, axis, share), put));
    return g->status;
}

/* Reduction mul: the gradient of a factor is the product of the others.  That is 0 if another factor is 0, and else the
 * product of all factors but zeros, divided by the factor unless it is 0. */
static Status grad_product(Grad *gr, const Attr *axis)
{
    Graph *g = gr->g;
    const ValueId x = grad_in(gr, 0), u = grad_in(gr, 2), dy = grad_dout(gr, 0);
    const DType type = value(g, u)->dtype;
    const ValueId zero = emit_scalar(g, type, 0), one = emit_scalar(g, type, 1), zeros = emit_zeros_like(g, x);
    const ValueId ones = EMIT(g, Add, NULL, zeros, one), none = is_same(g, u, zero);
    const ValueId factor = EMIT(g, Add, NULL, u, none), others = scattered(gr, axis, ones, factor, "mul");
    ValueId beside, product;

    grad_set(gr, 0, EMIT(g, Mul, NULL, dy, scattered(gr, axis, ones, u, "mul")));
    if (!grad_wanted(gr, 2))
        return g->status;
    beside = EMIT(g, Sub, NULL, gathered(gr, axis, scattered(gr, axis, zeros, none, "add")), none);
    product = EMIT(g, Mul, NULL, others, EMIT(g, Mul, NULL, dy, x));
    product = EMIT(g, Div, NULL, gathered(gr, axis, product), factor);
    grad_set(gr, 2, EMIT(g, Mul, NULL, product, is_same(g, beside, zero)));
    return g->status;
}

/* Overwritten elements get no gradient; written or added ones get it from the position to which they were scattered. */
static Status grad_scatter(Grad *gr, const Attr *axis)
{
    Graph *g = gr->g;
    ValueId dy = grad_dout(gr, 0), ix = grad_in(gr, 1);

    if (reduces(gr->node, "max") || reduces(gr->node, "min"))
        return scatter_grad_extreme(gr, axis);
    if (reduces(gr->node, "mul"))
        return grad_product(gr, axis);
    if (grad_wanted(gr, 0) && reduces(gr->node, "none"))
        grad_set(gr, 0,
                 emit(g, gr->node->op, axis, 3, (const ValueId[]){ dy, ix, emit_zeros_like(g, grad_in(gr, 2)) }));
    else
        grad_set(gr, 0, dy);
    if (grad_wanted(gr, 2))
        grad_set(gr, 2, gathered(gr, axis, dy));
    return g->status;
}

static Status grad_scatter_elements(Grad *gr)
{
    return grad_scatter(gr, ATTRS(INT("axis", node_int(gr->node, "axis"))));
}

/* Allows a split of all inputs along an axis that the indices do not address, or partial sums that are added. */
static Status place_scatter_elements(Placement *p)
{
    const Shape *x = in_value(p->g, p->node, 0)->shape, *ix = in_value(p->g, p->node, 1)->shape;
    int a = -1;

    for (int i = 0; i < 3; i++)
        a = p->in[i].kind == PL_S && a < 0 ? p->in[i].axis : a;
    if (a < 0) {
        if (p->in[0].kind == PL_P && p->in[1].kind == PL_B && p->in[2].kind == PL_P &&
            (reduces(p->node, "none") || reduces(p->node, "add")))
            place_set_all(p, PLACE_P);
        else
            return place_elementwise(p);
        return ST_OK;
    }
    if (a == node_int(p->node, "axis") || x->dim[a] != ix->dim[a])
        return place_all_b(p);
    for (int i = 0; i < 3; i++)
        p->in[i] = PLACE_S(a);
    place_set_all(p, PLACE_S(a));
    return ST_OK;
}

DEFINE_OP(ScatterElements, .since = 18, .respell = scatter_respell, .in_min = 3, .in_max = 3, .out_min = 1,
          .out_max = 1, .inplace = { 1 },
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .range = R_AXIS },
                                       { "reduction", A_STRING, .s = "none", .words = "none add mul max min" },
                                       { 0 } },
          .infer = infer_scatter_elements, .grad = grad_scatter_elements, .place = place_scatter_elements,
          .index_range = index_range_axis, .doc = "x with y[index[i][j]][j] = updates[i][j] (axis 0)");

/* ---- ScatterND ---- */

static Status infer_scatter_nd(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *ix = in_value(g, n, 1)->shape;
    Shape u = { 0 };
    int64_t k = ix->rank ? ix->dim[ix->rank - 1] : -1;

    TRY(check_scatter(g, n));
    if (k < 0 || k > x->rank || x->rank < 1 || ix->rank - 1 + x->rank - k > MAX_RANK)
        return FAIL(E_SHAPE, "%s: indices of %lld into rank %d", node_text(g, n), (long long)k, x->rank);
    for (int i = 0; i < ix->rank - 1; i++)
        u.dim[u.rank++] = ix->dim[i];
    for (int64_t i = k; i < x->rank; i++)
        u.dim[u.rank++] = x->dim[i];
    if (!shape_eq(&u, in_value(g, n, 2)->shape))
        return FAIL(E_SHAPE, "%s: the shape of the updates does not fit data and indices", node_text(g, n));
    for (int64_t i = 0; i < k; i++)
        if (x->dim[i] == 0 && shape_numel(ix) > 0)
            return FAIL(E_SHAPE, "%s: indices into the empty axis %lld", node_text(g, n), (long long)i);
    return infer_like(g, n, 0);
}

static Status grad_scatter_nd(Grad *gr) { return grad_scatter(gr, NULL); }

/* Allows a split of data and updates along an axis after the indexed ones, counted from the right. */
static Status place_scatter_nd(Placement *p)
{
    int rank = in_value(p->g, p->node, 0)->shape->rank, rank_u = in_value(p->g, p->node, 2)->shape->rank;
    const Shape *ix = in_value(p->g, p->node, 1)->shape;
    int64_t k = ix->dim[ix->rank - 1], a = -1;

    if (p->in[0].kind == PL_S)
        a = p->in[0].axis;
    else if (p->in[2].kind == PL_S)
        a = p->in[2].axis + rank - rank_u;
    if (a < 0 && p->in[1].kind != PL_S)
        return place_any(p, PL_P) ? place_all_b(p) : place_elementwise(p);
    if (p->in[1].kind == PL_S || a < k)
        return place_all_b(p);
    p->in[0] = PLACE_S((int)a);
    p->in[1] = PLACE_B;
    p->in[2] = PLACE_S((int)a + rank_u - rank);
    place_set_all(p, p->in[0]);
    return ST_OK;
}

static int64_t index_range_scatter_nd(const Graph *g, const Node *n, int i) { return tuples_range(g, n, i, 0); }
static int64_t tuple_range_scatter_nd(const Graph *g, const Node *n, int i, int k)
{
    return tuples_range_at(g, n, i, k, 0);
}

DEFINE_OP(ScatterND, .since = 18, .respell = scatter_respell, .in_min = 3, .in_max = 3, .out_min = 1, .out_max = 1,
          .inplace = { 1 },
          .attrs = (const AttrDecl[]){ { "reduction", A_STRING, .s = "none", .words = "none add mul max min" }, { 0 } },
          .infer = infer_scatter_nd, .grad = grad_scatter_nd, .place = place_scatter_nd,
          .index_range = index_range_scatter_nd, .tuple_range = tuple_range_scatter_nd,
          .doc = "x with slices written at tuples of indices");
