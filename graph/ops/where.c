/* Where and Clip: elements chosen between tensors. */
#include <math.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

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

static ValueId where_both(Graph *g, ValueId a, ValueId b)
{
    return !has_value(a) ? b : !has_value(b) ? a : EMIT(g, And, NULL, a, b);
}

/* The number that bounds x, or `none`.  NaN bounds nothing, as in Clip itself. */
static double bound_of(Grad *gr, int i, double none)
{
    const Tensor *t = has_value(grad_in(gr, i)) ? value_const(gr->g, grad_in(gr, i)) : NULL;

    return t && !isnan(tensor_float(t, 0)) ? tensor_float(t, 0) : none;
}

/* Bounds that are numbers: dx = dy where min < y < max, and y is more likely to be kept than x. */
static Status grad_clip_by_numbers(Grad *gr)
{
    const double lo = bound_of(gr, 1, -INFINITY), hi = bound_of(gr, 2, INFINITY);
    ValueId dy = grad_dout(gr, 0);

    if (lo == INFINITY || hi == -INFINITY)
        dy = emit_zeros_like(gr->g, dy);
    else if (!isinf(lo) || !isinf(hi))
        dy = EMIT(gr->g, ClipGrad, ATTRS(FLOAT("min", lo), FLOAT("max", hi)), dy, grad_out(gr, 0));
    grad_set(gr, 0, dy);
    return gr->g->status;
}

/* The gradient by a tensor that bounds x: dy where x is beyond it, half of dy where x equals it.  `ordered` and
 * `apart` (NO_VALUE: true) say whether min <= max and min < max.  The maximum alone (`of_max`) is the result of an
 * unordered pair. */
static ValueId grad_by_bound(Graph *g, ValueId beyond, ValueId equal, ValueId dy, ValueId half, ValueId zero,
                             ValueId ordered, ValueId apart, bool of_max)
{
    if (has_value(ordered))
        beyond = of_max ? EMIT(g, Or, NULL, beyond, EMIT(g, Not, NULL, ordered)) : EMIT(g, And, NULL, beyond, ordered);
    equal = EMIT(g, Where, NULL, where_both(g, equal, apart), half, zero);
    return EMIT(g, Where, NULL, beyond, dy, equal);
}

/* Bounds that are tensors: as grad_clip_by_numbers, but where x equals one bound dy goes to both in halves, and where
 * it equals two, which are equal then, to x alone. */
static Status grad_clip_by_tensors(Grad *gr)
{
    Graph *g = gr->g;
    const DType t = grad_in_value(gr, 0)->dtype;
    ValueId x = grad_in(gr, 0), lo = grad_in(gr, 1), hi = grad_in(gr, 2), dy = grad_dout(gr, 0);
    ValueId zero = emit_scalar(g, t, 0), half = EMIT(g, Mul, NULL, dy, emit_scalar(g, t, 0.5));
    ValueId below = has_value(lo) ? EMIT(g, Less, NULL, x, lo) : NO_VALUE;
    ValueId above = has_value(hi) ? EMIT(g, Greater, NULL, x, hi) : NO_VALUE;
    ValueId at_lo = has_value(lo) ? EMIT(g, Equal, NULL, x, lo) : NO_VALUE;
    ValueId at_hi = has_value(hi) ? EMIT(g, Equal, NULL, x, hi) : NO_VALUE, out = below, at = at_lo;
    ValueId ordered = NO_VALUE, apart = NO_VALUE;

    if (has_value(lo) && has_value(hi)) {
        ordered = EMIT(g, LessOrEqual, NULL, lo, hi);
        apart = EMIT(g, Less, NULL, lo, hi);
        out = EMIT(g, Or, NULL, below, above);
        at = EMIT(g, Xor, NULL, at_lo, at_hi);
    } else if (has_value(hi)) {
        out = above;
        at = at_hi;
    }
    if (grad_wanted(gr, 0)) {
        ValueId within = EMIT(g, Where, NULL, at, half, dy);

        grad_set(gr, 0, EMIT(g, Where, NULL, out, zero, within));
    }
    if (has_value(lo) && grad_wanted(gr, 1))
        grad_set_unbroadcast(gr, 1, grad_by_bound(g, below, at_lo, dy, half, zero, ordered, apart, false));
    if (has_value(hi) && grad_wanted(gr, 2))
        grad_set_unbroadcast(gr, 2, grad_by_bound(g, above, at_hi, dy, half, zero, ordered, apart, true));
    return g->status;
}

/* A bound that is a constant here is a number of the network's code.  One that is trained or computed is a tensor;
 * Clip by tensors that stay as they are is imported as Max and Min (graph/onnx/clamp.c), whose gradients at ties are
 * the same. */
static Status grad_clip(Grad *gr)
{
    bool numbers = true;

    for (int i = 1; i < 3; i++)
        numbers &= !has_value(grad_in(gr, i)) || value_const(gr->g, grad_in(gr, i));
    return numbers ? grad_clip_by_numbers(gr) : grad_clip_by_tensors(gr);
}

/* A bound is one number, also where it is written as a vector of one. */
static Status place_clip(Placement *p)
{
    place_need(p, 1, PLACE_B);
    place_need(p, 2, PLACE_B);
    return place_elementwise(p);
}

DEFINE_OP(Clip, .elementwise = true, .picks = 7, .tunable_in = 6, .since = 13, .from = 11, .in_min = 1, .in_max = 3,
          .out_min = 1, .out_max = 1, .dtypes = DTYPES_NUMERIC, .inplace = { 1 }, .import = import_clip,
          .respell = respell_clip, .infer = infer_clip, .grad = grad_clip, .place = place_clip,
          .doc = "min(max(x, min), max)");
