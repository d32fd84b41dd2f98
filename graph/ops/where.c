/* Where and Clip: elements chosen between tensors. */
#include "graph/grad.h"
#include "graph/place.h"

/* ---- Where ---- */

static Status infer_where(Graph *g, Node *n)
{
    TRY(infer_same_dtype(g, n, 1, 3));
    return infer_broadcast(g, n, in_value(g, n, 1)->dtype);
}

static Status grad_where(Grad *gr)
{
    Graph *g = gr->g;
    ValueId dy = grad_dout(gr, 0), zero;

    if (!dtype_is_float(grad_in_value(gr, 1)->dtype))
        return grad_none(gr);
    zero = emit_scalar(g, grad_in_value(gr, 1)->dtype, 0);
    if (grad_wanted(gr, 1))
        grad_set_unbroadcast(gr, 1, EMIT(g, Where, NULL, grad_in(gr, 0), dy, zero));
    if (grad_wanted(gr, 2))
        grad_set_unbroadcast(gr, 2, EMIT(g, Where, NULL, grad_in(gr, 0), zero, dy));
    return g->status;
}

/* Its own parts are zeros, too. */
static bool is_partial(const Placement *p, int i)
{
    double number;

    return p->in[i].kind == PL_P || (value_const_number(p->g, p->node->in[i], &number) && number == 0);
}

/* Linear in X and Y: where the condition is whole, the parts of partial sums are chosen part by part. */
static Status place_where(Placement *p)
{
    if (p->in[0].kind != PL_B || !place_any(p, PL_P) || !is_partial(p, 1) || !is_partial(p, 2))
        return place_elementwise(p);
    place_set_all(p, PLACE_P);
    return ST_OK;
}

DEFINE_OP(Where, .elementwise = true, .moves = 6, .since = 16, .from = 9, .in_min = 3, .in_max = 3, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_BOOL, .inplace = { 6 }, .infer = infer_where, .grad = grad_where,
          .place = place_where, .doc = "X where the condition holds, else Y");

/* ---- Clip ---- */

/* Before opset 11 the bounds were float attributes: they become inputs, of the type that infer finds. */
static Status import_bound(Graph *g, Node *n, const char *name, int i)
{
    const Attr *a = node_attr(n, name);

    if (!a)
        return ST_OK;
    if (a->type != A_FLOAT)
        return FAIL(E_MODEL, "%s: attribute '%s' must be a number", node_text(g, n), name);
    node_set_input(g, n, i, emit_scalar(g, DT_FLOAT32, a->f));
    node_remove_attr(g, n, name);
    return g->status;
}

static Status import_clip(Graph *g, Node *n, int opset)
{
    if (opset >= 11)
        return ST_OK;
    TRY(import_bound(g, n, "min", 1));
    return import_bound(g, n, "max", 2);
}

static bool respell_clip(Graph *g, Node *n, int opset)
{
    (void)opset;
    return respell_input_to_float(g, n, 2, "max") && respell_input_to_float(g, n, 1, "min");
}

static Status infer_clip(Graph *g, Node *n)
{
    DType t = in_value(g, n, 0)->dtype;

    for (int i = 1; i < 3; i++) {
        const Tensor *c = in_const(g, n, i);

        if (!has_in(n, i))
            continue;
        if (shape_numel(in_value(g, n, i)->shape) != 1 || in_value(g, n, i)->shape->rank > 1)
            return FAIL(E_SHAPE, "%s: bound '%s' must be one number", node_text(g, n), in_value(g, n, i)->name);
        if (c && c->dtype != t && dtype_is_float(c->dtype) && dtype_is_float(t))
            node_set_input(g, n, i, emit_scalar(g, t, tensor_float(c, 0)));
    }
    TRY(g->status);
    TRY(infer_same_dtype(g, n, 0, n->n_in));
    return infer_like(g, n, 0);
}

static ValueId both(Graph *g, ValueId a, ValueId b)
{
    return !has_value(a) ? b : !has_value(b) ? a : EMIT(g, And, NULL, a, b);
}

/* dx = dy where min <= x <= max (the bounds included, as in PyTorch).  A bound gets dy from where it is the result; if
 * min > max that is max everywhere. */
static Status grad_clip(Grad *gr)
{
    Graph *g = gr->g;
    ValueId x = grad_in(gr, 0), lo = grad_in(gr, 1), hi = grad_in(gr, 2), dy = grad_dout(gr, 0);
    ValueId zero = emit_scalar(g, grad_in_value(gr, 0)->dtype, 0), at, ordered = NO_VALUE;

    if (grad_wanted(gr, 0)) {
        at = has_value(lo) ? EMIT(g, GreaterOrEqual, NULL, x, lo) : NO_VALUE;
        at = both(g, at, has_value(hi) ? EMIT(g, LessOrEqual, NULL, x, hi) : NO_VALUE);
        grad_set(gr, 0, has_value(at) ? EMIT(g, Where, NULL, at, dy, zero) : dy);
    }
    if (has_value(lo) && has_value(hi) && (grad_wanted(gr, 1) || grad_wanted(gr, 2)))
        ordered = EMIT(g, LessOrEqual, NULL, lo, hi);
    if (has_value(lo) && grad_wanted(gr, 1)) {
        at = both(g, EMIT(g, Less, NULL, x, lo), ordered);
        grad_set_unbroadcast(gr, 1, EMIT(g, Where, NULL, at, dy, zero));
    }
    if (has_value(hi) && grad_wanted(gr, 2)) {
        at = EMIT(g, Greater, NULL, x, hi);
        if (has_value(ordered))
            at = EMIT(g, Or, NULL, at, EMIT(g, Not, NULL, ordered));
        grad_set_unbroadcast(gr, 2, EMIT(g, Where, NULL, at, dy, zero));
    }
    return g->status;
}

/* A bound is one number, also where it is written as a vector of one. */
static Status place_clip(Placement *p)
{
    place_need(p, 1, PLACE_B);
    place_need(p, 2, PLACE_B);
    return place_elementwise(p);
}

DEFINE_OP(Clip, .elementwise = true, .setting_in = 6, .since = 13, .from = 11, .in_min = 1, .in_max = 3, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_NUMERIC, .inplace = { 1 }, .import = import_clip, .respell = respell_clip,
          .infer = infer_clip, .grad = grad_clip, .place = place_clip, .doc = "min(max(x, min), max)");
