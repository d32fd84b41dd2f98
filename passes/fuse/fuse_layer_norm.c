/* fuse-layer-norm: layer normalisation written in single operators becomes one LayerNormalization.
 *
 *   d = x - mean(x);    y = d / sqrt(mean(d^2) + epsilon);    optionally y * scale, then + bias
 *
 * Exporters write it so for opsets before 17, with means over the last axes; passes/simplify/lower.c has turned means
 * into sums and divisions.  Legal because it is the same function up to rounding; 16-bit floats, which the single
 * operators round at each step, stay.  The gradient of LayerNormalization reads x alone, where the single operators
 * keep d, the quotient and the root of every row until the backward pass; so the pass runs before autodiff.  Scale and
 * bias are fused if they are states or constants of the normalised shape, with or without leading ones, and the value
 * that they change has no other reader.  Other readers of a part of the formula keep that part.  Means that include the
 * first axis stay: it may be the batch, which replicas can sum over but not normalise over. */
#include <math.h>

#include "graph/ir/emit.h"
#include "graph/ir/readers.h"
#include "graph/ir/rewrite.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.gen.h"
#include "passes/pass.h"

static const double ROUNDING = 0x1p-23; /* relative error of a divisor that is a float32 literal */

/* Is an input of n a constant number?  Then sets *number to it and *v to the other input. */
static bool with_number(const Graph *g, const Node *n, ValueId *v, double *number)
{
    const int at = n ? const_input(g, n, number) : -1;

    if (at >= 0)
        *v = n->in[1 - at];
    return at >= 0;
}

/* Is v = base ^ exponent?  Then sets *base. */
static bool power(const Graph *g, ValueId v, double exponent, ValueId *base)
{
    const Node *n = made_by(g, v, &op_Pow);
    double e;

    if (!n || !value_const_number(g, n->in[1], &e) || e != exponent)
        return false;
    *base = n->in[0];
    return true;
}

/* Is v the mean of x over its last axes, from *axis > 0 on, which are kept with size 1?  Then sets *x and *axis. */
static bool fuse_layer_norm_is_mean(const Graph *g, ValueId v, ValueId *x, int *axis)
{
    const Node *n = made_by(g, v, &op_Div), *sum;
    const Shape *s;
    ValueId total;
    double divisor;
    unsigned mask;

    if (n) {
        total = n->in[0];
        if (!value_const_number(g, n->in[1], &divisor))
            return false;
    } else {
        if (!with_number(g, made_by(g, v, &op_Mul), &total, &divisor))
            return false;
        divisor = 1 / divisor;
    }
    if (!(sum = made_by(g, total, &op_ReduceSum)))
        return false;
    *x = sum->in[0];
    s = value(g, *x)->shape;
    if (!shape_known(s) || !node_int(sum, "keepdims") || (has_in(sum, 1) && !value_const(g, sum->in[1])) ||
        reduce_axes(&mask, g, sum))
        return false;
    for (*axis = s->rank; *axis > 0 && mask >> (*axis - 1) & 1;)
        --*axis;
    if (!*axis || *axis == s->rank || mask != (1u << s->rank) - (1u << *axis))
        return false;
    return fabs(divisor / (double)shape_count(s, *axis, s->rank) - 1) <= ROUNDING;
}

/* Is v = sqrt(variance)?  Then sets *variance. */
static bool is_root(const Graph *g, ValueId v, ValueId *variance)
{
    const Node *n = made_by(g, v, &op_Sqrt);

    if (!n)
        return power(g, v, 0.5, variance);
    *variance = n->in[0];
    return true;
}

/* Is d = x - mean(x), and `variance` = mean(d^2) + epsilon over the same axes, from *axis on?  Then sets *x, *axis and
 * *epsilon. */
static bool normalises(const Graph *g, ValueId d, ValueId variance, ValueId *x, int *axis, double *epsilon)
{
    const Node *n = made_by(g, d, &op_Sub), *product;
    ValueId mean, squares, base;
    int other_axis;

    if (!n || !fuse_layer_norm_is_mean(g, n->in[1], x, axis) || !value_eq(*x, n->in[0]) ||
        !with_number(g, made_by(g, variance, &op_Add), &mean, epsilon) || !(*epsilon >= 0) || !isfinite(*epsilon) ||
        !fuse_layer_norm_is_mean(g, mean, &squares, &other_axis) || other_axis != *axis)
        return false;
    if ((product = made_by(g, squares, &op_Mul)))
        return value_eq(product->in[0], d) && value_eq(product->in[1], d);
    return power(g, squares, 2, &base) && value_eq(base, d);
}

/* Is n the quotient d / root, or the product of d and 1 / root or variance^-0.5?  Then sets *x, *axis and *epsilon.
 * y has the shape of x unless a number in the formula has more axes. */
static bool fuse_layer_norm_find(const Graph *g, const Node *n, ValueId *x, int *axis, double *epsilon)
{
    ValueId variance;
    bool found =
        n->op == &op_Div && is_root(g, n->in[1], &variance) && normalises(g, n->in[0], variance, x, axis, epsilon);

    for (int i = 0; n->op == &op_Mul && !found && i < 2; i++) {
        const Node *inverse = made_by(g, n->in[1 - i], &op_Reciprocal), *one = made_by(g, n->in[1 - i], &op_Div);
        double number;

        found = inverse ? is_root(g, inverse->in[0], &variance)
                : one   ? value_const_number(g, one->in[0], &number) && number == 1 && is_root(g, one->in[1], &variance)
                        : power(g, n->in[1 - i], -0.5, &variance);
        found = found && normalises(g, n->in[i], variance, x, axis, epsilon);
    }
    return found && shape_eq(value(g, n->out[0])->shape, value(g, *x)->shape) &&
           (value(g, *x)->dtype == DT_FLOAT32 || value(g, *x)->dtype == DT_FLOAT64);
}

/* ---- scale and bias ---- */

/* The operand of n besides v. */
static ValueId other_operand(const Node *n, ValueId v) { return n->in[value_eq(n->in[0], v)]; }

/* The only reader of v, an `op`, if it combines v with a parameter or constant of x's normalised shape, with or without
 * ones in front; otherwise NULL. */
static Node *reader_with_parameter(const Uses *u, ValueId v, ValueId x, int axis, const OpDef *op)
{
    const Shape *whole = value(u->g, x)->shape;
    Node *n = only_reader(u, v);
    const Value *other = n && n->op == op ? value(u->g, other_operand(n, v)) : NULL;
    const Shape *s = other ? other->shape : NULL;
    const int ahead = s ? s->rank - (whole->rank - axis) : 0;

    if (!other || (other->kind != V_STATE && other->kind != V_CONST) || ahead < 0 || s->rank > whole->rank)
        return NULL;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] != (i < ahead ? 1 : whole->dim[axis + i - ahead]))
            return NULL;
    return n;
}

/* Replaces the quotient n, and the scale and bias behind it; without a scale, LayerNormalization gets ones.  The nodes
 * in front of n stay for their other readers, or for dce. */
static void fuse_layer_norm_rewrite(const Uses *u, Graph *g, Node *n, ValueId x, int axis, double epsilon)
{
    const DType dtype = value(g, x)->dtype;
    const Shape *s = value(g, x)->shape, rest = shape_of(s->rank - axis, s->dim + axis);
    Node *scaled = reader_with_parameter(u, n->out[0], x, axis, &op_Mul), *last = scaled ? scaled : n;
    Node *shifted = reader_with_parameter(u, last->out[0], x, axis, &op_Add);
    ValueId scale = scaled ? emit_reshape(g, other_operand(scaled, n->out[0]), &rest) : emit_full(g, dtype, &rest, 1);
    ValueId bias = shifted ? emit_reshape(g, other_operand(shifted, last->out[0]), &rest) : NO_VALUE;
    ValueId y = emit(g, &op_LayerNormalization, ATTRS(INT("axis", axis), FLOAT("epsilon", epsilon)), shifted ? 3 : 2,
                     (const ValueId[]){ x, scale, bias });

    if (g->status)
        return;
    graph_replace(g, (shifted ? shifted : last)->out[0], y);
    if (shifted)
        graph_remove(g, shifted);
    if (scaled)
        graph_remove(g, scaled);
    graph_remove(g, n);
}

static Status fuse_layer_norm_run(Graph *g, PassCtx *ctx)
{
    const uint32_t n_node = g->n_node;
    Uses u;

    TRY(uses_find(&u, g, ctx->scratch));
    TRY(rewrite_begin(g, ctx->scratch));
    for (uint32_t i = 0; i < n_node && !g->status; i++) {
        double epsilon;
        ValueId x;
        int axis;

        rewrite_read(g, g->node[i]);
        if (!g->node[i]->op || !fuse_layer_norm_find(g, g->node[i], &x, &axis, &epsilon))
            continue;
        fuse_layer_norm_rewrite(&u, g, g->node[i], x, axis, epsilon);
        ctx->n_changed++;
    }
    TRY(rewrite_end(g));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_fuse_layer_norm = { .name = "fuse-layer-norm",
                                    .summary = "merge layer normalisation written in single operators",
                                    .idempotent = true,
                                    .run = fuse_layer_norm_run };
