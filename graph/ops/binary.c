/* Arithmetic of tensors with numpy broadcasting.
 *
 * Integer arithmetic wraps.  Cases that C leaves undefined are defined: x / 0 = 0, x mod 0 = 0, the lowest value
 * divided by -1 is itself; a shift by the width or more gives 0. */
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

static Status infer(Graph *g, Node *n) { return infer_broadcast(g, n, DT_NONE); }

/* ---- Add Sub Mul Div ---- */

static Status grad_add(Grad *gr)
{
    for (int i = 0; i < gr->node->n_in; i++)
        grad_set_unbroadcast(gr, i, grad_dout(gr, 0));
    return gr->g->status;
}

static Status grad_sub(Grad *gr)
{
    grad_set_unbroadcast(gr, 0, grad_dout(gr, 0));
    if (grad_wanted(gr, 1))
        grad_set_unbroadcast(gr, 1, EMIT(gr->g, Neg, NULL, grad_dout(gr, 0)));
    return gr->g->status;
}

static Status grad_mul(Grad *gr)
{
    for (int i = 0; i < 2; i++)
        if (grad_wanted(gr, i))
            grad_set_unbroadcast(gr, i, EMIT(gr->g, Mul, NULL, grad_dout(gr, 0), grad_in(gr, 1 - i)));
    return gr->g->status;
}

/* da = dy / b, db = -dy y / b */
static Status grad_div(Grad *gr)
{
    Graph *g = gr->g;
    ValueId da = EMIT(g, Div, NULL, grad_dout(gr, 0), grad_in(gr, 1));

    grad_set_unbroadcast(gr, 0, da);
    if (grad_wanted(gr, 1))
        grad_set_unbroadcast(gr, 1, EMIT(g, Neg, NULL, EMIT(g, Mul, NULL, da, grad_out(gr, 0))));
    return g->status;
}

/* ---- spans of integers ---- */

/* The least and the largest of the other input, where it is a constant of integers that some table could have. */
static bool other_span(const Graph *g, const Node *n, int i, IntSpan *out)
{
    const Tensor *t = value_const(g, n->in[1 - i]);

    if (!t || !dtype_is_int(t->dtype) || !tensor_numel(t))
        return false;
    *out = (IntSpan){ tensor_int(t, 0), tensor_int(t, 0) };
    for (int64_t k = 1; k < tensor_numel(t); k++) {
        out->low = tensor_int(t, k) < out->low ? tensor_int(t, k) : out->low;
        out->high = tensor_int(t, k) > out->high ? tensor_int(t, k) : out->high;
    }
    return out->low > -(1LL << 40) && out->high < 1LL << 40;
}

/* Two operands that are not constant get half of the span each. */
static bool span_in_add(const Graph *g, const Node *n, int i, IntSpan *y)
{
    IntSpan c;

    if (other_span(g, n, i, &c))
        *y = (IntSpan){ y->low - c.low, y->high - c.high };
    else
        y->high = (y->high + 1) / 2;
    return true;
}

static bool span_in_sub(const Graph *g, const Node *n, int i, IntSpan *y)
{
    IntSpan c;

    if (!other_span(g, n, i, &c))
        return false;
    *y = i ? (IntSpan){ c.high - y->high + 1, c.low - y->low + 1 } : (IntSpan){ y->low + c.high, y->high + c.low };
    return true;
}

static bool span_in_mul(const Graph *g, const Node *n, int i, IntSpan *y)
{
    IntSpan c;

    if (!other_span(g, n, i, &c) || c.low <= 0)
        return false;
    y->low = y->low < 0 ? -(-y->low / c.high) : (y->low + c.low - 1) / c.low;
    y->high = y->high > 0 ? (y->high - 1) / c.high + 1 : 1 - (c.low - y->high) / c.low;
    return true;
}

static bool span_in_div(const Graph *g, const Node *n, int i, IntSpan *y)
{
    IntSpan c;

    if (i || !other_span(g, n, i, &c) || c.low <= 0 || c.high > 1LL << 20)
        return false;
    y->low *= y->low > 0 ? c.high : c.low;
    y->high = y->high > 0 ? y->high * c.low : (y->high - 1) * c.high + 1;
    return true;
}

#define BINARY(version, first, types)                                                                               \
    .elementwise = true, .since = (version), .from = (first), .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, \
    .dtypes = (types), .inplace = { 3 }, .import = import_broadcast, .infer = infer

DEFINE_OP(Add, BINARY(14, 7, DTYPES_NUMERIC), .param_in = 3, .flags = OPF_PARAM_MAYBE | OPF_SUM, .grad = grad_add,
          .span_in = span_in_add, .place = place_add, .doc = "a + b");
DEFINE_OP(Sub, BINARY(14, 7, DTYPES_NUMERIC), .span_in = span_in_sub, .grad = grad_sub, .place = place_add,
          .doc = "a - b");
DEFINE_OP(Mul, BINARY(14, 7, DTYPES_NUMERIC), .param_in = 3, .flags = OPF_PARAM_MAYBE, .grad = grad_mul,
          .span_in = span_in_mul, .place = place_mul, .doc = "a * b");
DEFINE_OP(Div, BINARY(14, 7, DTYPES_NUMERIC), .ratio_in = 2, .span_in = span_in_div, .grad = grad_div,
          .place = place_div, .doc = "a / b; integers truncate");

/* ---- Pow ---- */

static Status infer_pow(Graph *g, Node *n)
{
    if (!(DTYPES_NUMERIC & DTYPE_BIT(in_value(g, n, 1)->dtype)))
        return FAIL(E_SHAPE, "%s: the exponent is %s, expected a number", node_text(g, n),
                    dtype_name(in_value(g, n, 1)->dtype));
    return infer_broadcast(g, n, in_value(g, n, 0)->dtype);
}

/* A constant exponent of one element that does not stretch a. */
static bool scalar_exponent(double *out, const Graph *g, const Node *n)
{
    const Tensor *t = value_const(g, n->in[1]);

    if (!t || tensor_numel(t) != 1 || t->shape.rank > in_value(g, n, 0)->shape->rank)
        return false;
    *out = tensor_float(t, 0);
    return true;
}

/* b a^(b-1) dy: for b = 0 exactly 0, also at a = 0. */
static ValueId grad_base(Grad *gr, ValueId a, ValueId b)
{
    Graph *g = gr->g;
    DType t = value(g, a)->dtype;
    double e;
    ValueId power, slope, zero;

    if (scalar_exponent(&e, g, gr->node)) {
        power = EMIT(g, Pow, NULL, a, emit_scalar(g, t, e - 1));
        return e == 0 ? emit_zeros_like(g, grad_out(gr, 0))
                      : EMIT(g, Mul, NULL, grad_dout(gr, 0), EMIT(g, Mul, NULL, power, emit_scalar(g, t, e)));
    }
    power = EMIT(g, Pow, NULL, a, EMIT(g, Sub, NULL, b, emit_scalar(g, t, 1)));
    slope = EMIT(g, Mul, NULL, b, power);
    zero = emit_scalar(g, t, 0);
    slope = EMIT(g, Where, NULL, EMIT(g, Equal, NULL, b, zero), zero, slope);
    return EMIT(g, Mul, NULL, grad_dout(gr, 0), slope);
}

/* dy y log(a), and 0 where a = 0 (the limit from b > 0); NaN where a < 0, as the function is not differentiable
 * there. */
static ValueId grad_exponent(Grad *gr, ValueId a)
{
    Graph *g = gr->g;
    ValueId zero = grad_number(gr, 0);
    ValueId slope = EMIT(g, Mul, NULL, grad_out(gr, 0), EMIT(g, Log, NULL, a));

    slope = EMIT(g, Where, NULL, EMIT(g, Equal, NULL, a, zero), zero, slope);
    return EMIT(g, Mul, NULL, grad_dout(gr, 0), slope);
}

static Status grad_pow(Grad *gr)
{
    Graph *g = gr->g;
    ValueId b = emit_cast(g, grad_in(gr, 1), grad_in_value(gr, 0)->dtype);

    if (grad_wanted(gr, 0))
        grad_set_unbroadcast(gr, 0, grad_base(gr, grad_in(gr, 0), b));
    if (grad_wanted(gr, 1) && dtype_is_float(grad_in_value(gr, 1)->dtype))
        grad_set_unbroadcast(gr, 1, emit_cast(g, grad_exponent(gr, grad_in(gr, 0)), grad_in_value(gr, 1)->dtype));
    return g->status;
}

/* Squares and roots are what models use: an exact and much faster form of each. */
static Status lower_pow(Graph *g, Node *n)
{
    ValueId a = n->in[0];
    double e;

    if (!dtype_is_float(value(g, a)->dtype) || !scalar_exponent(&e, g, n))
        return ST_OK;
    if (e == 2)
        graph_replace(g, n->out[0], EMIT(g, Mul, NULL, a, a));
    else if (e == 0.5)
        graph_replace(g, n->out[0], EMIT(g, Sqrt, NULL, a));
    else if (e == -1)
        graph_replace(g, n->out[0], EMIT(g, Reciprocal, NULL, a));
    else if (e == 3)
        graph_replace(g, n->out[0], EMIT(g, Mul, NULL, a, EMIT(g, Mul, NULL, a, a)));
    return g->status;
}

DEFINE_OP(Pow, .elementwise = true, .ratio_in = 3, .precision = PREC_WIDE, .since = 15, .from = 7, .in_min = 2,
          .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_NUMERIC, .inplace = { 1 },
          .import = import_broadcast, .infer = infer_pow, .grad = grad_pow, .lower = lower_pow,
          .place = place_elementwise, .doc = "a to the power b");

/* ---- of any number of tensors ---- */

#define VARIADIC(version, first, types)                                                                              \
    .elementwise = true, .since = (version), .from = (first), .in_min = 1, .in_max = -1, .out_min = 1, .out_max = 1, \
    .dtypes = (types), .inplace = { 1 }, .infer = infer

static ValueId binary_sum_of(Graph *g, const Node *n)
{
    ValueId sum = n->in[0];

    for (int i = 1; i < n->n_in; i++)
        sum = EMIT(g, Add, NULL, sum, n->in[i]);
    return sum;
}

static Status lower_sum(Graph *g, Node *n)
{
    graph_replace(g, n->out[0], binary_sum_of(g, n));
    return g->status;
}

static Status lower_mean(Graph *g, Node *n)
{
    ValueId count = emit_scalar(g, in_value(g, n, 0)->dtype, n->n_in);

    graph_replace(g, n->out[0], n->n_in == 1 ? n->in[0] : EMIT(g, Div, NULL, binary_sum_of(g, n), count));
    return g->status;
}

/* dy / n for everybody */
static Status grad_mean(Grad *gr)
{
    ValueId share = EMIT(gr->g, Div, NULL, grad_dout(gr, 0), grad_number(gr, gr->node->n_in));

    for (int i = 0; i < gr->node->n_in; i++)
        grad_set_unbroadcast(gr, i, share);
    return gr->g->status;
}

/* Whoever equals the extreme shares dy in equal parts (of two equal ones, each gets half: as in PyTorch). */
static Status binary_grad_extreme(Grad *gr)
{
    Graph *g = gr->g;
    DType t = grad_in_value(gr, 0)->dtype;
    ValueId count = NO_VALUE, share;

    for (int i = 0; i < gr->node->n_in; i++) {
        ValueId hit = emit_cast(g, EMIT(g, Equal, NULL, grad_in(gr, i), grad_out(gr, 0)), t);

        count = has_value(count) ? EMIT(g, Add, NULL, count, hit) : hit;
    }
    share = EMIT(g, Div, NULL, grad_dout(gr, 0), count);
    for (int i = 0; i < gr->node->n_in; i++)
        if (grad_wanted(gr, i)) {
            ValueId hit = EMIT(g, Equal, NULL, grad_in(gr, i), grad_out(gr, 0));

            grad_set_unbroadcast(gr, i, EMIT(g, Where, NULL, hit, share, grad_number(gr, 0)));
        }
    return g->status;
}

DEFINE_OP(Sum, VARIADIC(13, 8, DTYPES_FLOAT), .flags = OPF_SUM, .grad = grad_add, .lower = lower_sum,
          .place = place_add, .doc = "sum of all inputs");
DEFINE_OP(Mean, VARIADIC(13, 8, DTYPES_FLOAT), .grad = grad_mean, .lower = lower_mean, .place = place_add,
          .doc = "mean of all inputs");
DEFINE_OP(Max, .picks = 255, VARIADIC(13, 8, DTYPES_NUMERIC), .grad = binary_grad_extreme, .place = place_elementwise,
          .doc = "largest of all inputs");
DEFINE_OP(Min, .picks = 255, VARIADIC(13, 8, DTYPES_NUMERIC), .grad = binary_grad_extreme, .place = place_elementwise,
          .doc = "smallest of all inputs");

/* ---- PRelu ---- */

/* dx = dy (slope at 0 and below, as in PyTorch), dslope = dy x below 0 */
static Status grad_prelu(Grad *gr)
{
    Graph *g = gr->g;
    ValueId dy = grad_dout(gr, 0), x = grad_in(gr, 0), zero = grad_number(gr, 0);
    ValueId left = EMIT(g, LessOrEqual, NULL, x, zero);

    if (grad_wanted(gr, 0))
        grad_set(gr, 0, EMIT(g, Where, NULL, left, EMIT(g, Mul, NULL, dy, grad_in(gr, 1)), dy));
    if (grad_wanted(gr, 1))
        grad_set_unbroadcast(gr, 1, EMIT(g, Where, NULL, left, EMIT(g, Mul, NULL, dy, x), zero));
    return g->status;
}

/* Up to opset 6 a slope for each channel stood at axis 1. */
static Status import_prelu(Graph *g, Node *n, int opset)
{
    const Value *slope = has_in(n, 1) ? in_value(g, n, 1) : NULL;
    bool channels = slope && slope->kind == V_CONST && slope->shape->rank == 1 && slope->shape->dim[0] != 1;

    if (opset < 7 && channels && has_in(n, 0))
        node_set_input(g, n, 1, import_aligned(g, n->in[0], n->in[1], 1));
    return g->status;
}

static Status infer_prelu(Graph *g, Node *n)
{
    TRY(infer_broadcast(g, n, DT_NONE));
    if (!shape_eq(value(g, n->out[0])->shape, in_value(g, n, 0)->shape))
        return FAIL(E_SHAPE, "%s: the slope does not broadcast to the shape of the input", node_text(g, n));
    return ST_OK;
}

DEFINE_OP(PRelu, .elementwise = true, .param_in = 2, .since = 16, .from = 6, .in_min = 2, .in_max = 2, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_NUMERIC, .inplace = { 1 }, .import = import_prelu, .infer = infer_prelu,
          .grad = grad_prelu, .place = place_elementwise, .doc = "x, or slope * x below 0");

/* ---- of integers ---- */

static Status infer_mod(Graph *g, Node *n)
{
    if (!node_int(n, "fmod") && dtype_is_float(in_value(g, n, 0)->dtype))
        return FAIL(E_MODEL, "%s: fmod must be 1 for floats", node_text(g, n));
    return infer_broadcast(g, n, DT_NONE);
}

/* fmod(a, b) = a - trunc(a / b) b: da = dy, db = -dy trunc(a / b), the truncated quotient as (a - y) / b. */
static Status grad_mod(Grad *gr)
{
    Graph *g = gr->g;
    ValueId multiple, quotient;

    if (!dtype_is_float(grad_in_value(gr, 0)->dtype))
        return grad_none(gr);
    grad_set_unbroadcast(gr, 0, grad_dout(gr, 0));
    if (!grad_wanted(gr, 1))
        return g->status;
    multiple = EMIT(g, Sub, NULL, grad_out(gr, 0), grad_in(gr, 0));
    quotient = EMIT(g, Round, NULL, EMIT(g, Div, NULL, multiple, grad_in(gr, 1)));
    grad_set_unbroadcast(gr, 1, EMIT(g, Mul, NULL, grad_dout(gr, 0), quotient));
    return g->status;
}

static Status infer_shift(Graph *g, Node *n)
{
    const char *direction = node_string(n, "direction");

    if (strcmp(direction, "LEFT") && strcmp(direction, "RIGHT"))
        return FAIL(E_MODEL, "%s: direction '%s', expected LEFT or RIGHT", node_text(g, n), direction);
    return infer_broadcast(g, n, DT_NONE);
}

DEFINE_OP(Mod, .elementwise = true, .since = 13, .from = 10, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_NUMERIC, .inplace = { 3 }, .attrs = (const AttrDecl[]){ { "fmod", A_INT, .i = 0 }, { 0 } },
          .infer = infer_mod, .grad = grad_mod, .place = place_elementwise,
          .doc = "remainder with the sign of b, or of a if fmod");
DEFINE_OP(BitShift, .elementwise = true, .since = 11, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_UNSIGNED, .inplace = { 3 },
          .attrs = (const AttrDecl[]){ { "direction", A_STRING, .rule = ATTR_REQUIRED, .words = "LEFT RIGHT" }, { 0 } },
          .infer = infer_shift, .grad = grad_none, .place = place_elementwise, .doc = "a shifted by b bits");
DEFINE_OP(BitwiseAnd, BINARY(18, 18, DTYPES_INT), .grad = grad_none, .place = place_elementwise,
          .doc = "bits in a and b");
DEFINE_OP(BitwiseOr, BINARY(18, 18, DTYPES_INT), .grad = grad_none, .place = place_elementwise,
          .doc = "bits in a or b");
DEFINE_OP(BitwiseXor, BINARY(18, 18, DTYPES_INT), .grad = grad_none, .place = place_elementwise,
          .doc = "bits in one of a and b");
