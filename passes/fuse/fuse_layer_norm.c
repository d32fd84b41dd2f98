/* fuse-layer-norm: layer normalisation written in single operators becomes one LayerNormalization.
 *
 *   d = x - mean(x);    y = d / sqrt(mean(d^2) + epsilon);    optionally y * scale, then + bias
 *
 * Exporters write it so for opsets before 17, with means over the last axes; passes/simplify/lower.c has turned means
 * into sums and divisions.  Legal because it is the same function.  Its gradient reads x alone, where the single
 * operators keep d, the quotient and the root of every row until the backward pass; so the pass runs before autodiff.
 * Scale and bias are fused if they are parameters, perhaps frozen, of the normalised shape, and the value that they
 * change has no other reader.  Other readers of a part of the formula keep that part.  If the first axis is among the
 * normalised, the formula stays: a sum over it can be exact over a batch in parts. */
#include <math.h>

#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/reduce.h"
#include "graph/ir/rewrite.h"
#include "graph/ir/readers.h"
#include "passes/pass.h"

static const double ROUNDING = 0x1p-23; /* relative: of a literal of float32 */

typedef struct {
    ValueId x, scale, bias;
    Node *last[3]; /* Div (Mul), then Mul by scale, then Add of bias */
    int n_last, axis;
    double epsilon;
} Found;

/* Has n an input that is a constant number?  *v: its other input. */
static bool with_number(const Graph *g, const Node *n, ValueId *v, double *number)
{
    const int at = n ? const_input(g, n, number) : -1;

    if (at >= 0)
        *v = n->in[1 - at];
    return at >= 0;
}

/* Is v = base ^ exponent? */
static bool power(const Graph *g, ValueId v, double exponent, ValueId *base)
{
    const Node *n = made_by(g, v, &op_Pow);
    double e;

    if (!n || !value_const_number(g, n->in[1], &e) || e != exponent)
        return false;
    *base = n->in[0];
    return true;
}

/* Is v the mean of x over its last axes, from *axis > 0 on, which are kept with size 1? */
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

/* Is v = sqrt(square)? */
static bool is_root(const Graph *g, ValueId v, ValueId *square)
{
    const Node *n = made_by(g, v, &op_Sqrt);

    if (!n)
        return power(g, v, 0.5, square);
    *square = n->in[0];
    return true;
}

/* Is d = x - mean(x), and `variance` = mean(d^2) + epsilon over the same axes? */
static bool normalises(const Graph *g, ValueId d, ValueId variance, Found *m)
{
    const Node *n = made_by(g, d, &op_Sub), *product;
    ValueId mean, squares, root;
    int axis;

    if (!n || !fuse_layer_norm_is_mean(g, n->in[1], &m->x, &m->axis) || !value_eq(m->x, n->in[0]) ||
        !with_number(g, made_by(g, variance, &op_Add), &mean, &m->epsilon) || !(m->epsilon >= 0) ||
        !isfinite(m->epsilon) || !fuse_layer_norm_is_mean(g, mean, &squares, &axis) || axis != m->axis)
        return false;
    if ((product = made_by(g, squares, &op_Mul)))
        return value_eq(product->in[0], d) && value_eq(product->in[1], d);
    return power(g, squares, 2, &root) && value_eq(root, d);
}

/* Is n the quotient d / root, or the product of d and 1 / root or variance^-0.5?  y has the shape of x unless a number
 * in the formula has more axes. */
static bool fuse_layer_norm_find(const Graph *g, Node *n, Found *m)
{
    ValueId variance;
    bool found = n->op == &op_Div && is_root(g, n->in[1], &variance) && normalises(g, n->in[0], variance, m);

    for (int i = 0; n->op == &op_Mul && !found && i < 2; i++) {
        const Node *inverse = made_by(g, n->in[1 - i], &op_Reciprocal), *one = made_by(g, n->in[1 - i], &op_Div);
        double number;

        found = inverse ? is_root(g, inverse->in[0], &variance)
                : one   ? value_const_number(g, one->in[0], &number) && number == 1 && is_root(g, one->in[1], &variance)
                        : power(g, n->in[1 - i], -0.5, &variance);
        found = found && normalises(g, n->in[i], variance, m);
    }
    m->last[m->n_last++] = n;
    return found && shape_eq(value(g, n->out[0])->shape, value(g, m->x)->shape) &&
           (value(g, m->x)->dtype == DT_FLOAT32 || value(g, m->x)->dtype == DT_FLOAT64);
}

/* ---- scale and bias ---- */

/* The operand that the only reader of the last value, an `op`, combines with it; the reader becomes the last node.
 * NO_VALUE: there is no such reader, or the operand is no parameter or constant of x's normalised shape, with or
 * without ones in front. */
static ValueId take_in(const Uses *u, Found *m, const OpDef *op)
{
    const ValueId v = m->last[m->n_last - 1]->out[0];
    const Shape *x = value(u->g, m->x)->shape, *s;
    Node *n = only_reader(u, v);
    const Value *other;
    int ahead;

    if (!n || n->op != op)
        return NO_VALUE;
    other = in_value(u->g, n, value_eq(n->in[0], v));
    s = other->shape;
    ahead = s->rank - (x->rank - m->axis);
    if ((other->kind != V_STATE && other->kind != V_CONST) || ahead < 0 || s->rank > x->rank)
        return NO_VALUE;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] != (i < ahead ? 1 : x->dim[m->axis + i - ahead]))
            return NO_VALUE;
    m->last[m->n_last++] = n;
    return n->in[value_eq(n->in[0], v)];
}

static void fuse_layer_norm_rewrite(Graph *g, const Found *m)
{
    const Attr *attrs = ATTRS(INT("axis", m->axis), FLOAT("epsilon", m->epsilon));
    const Value *x = value(g, m->x);
    Shape rest = shape_of(x->shape->rank - m->axis, x->shape->dim + m->axis);
    ValueId scale = has_value(m->scale) ? emit_reshape(g, m->scale, &rest) : emit_full(g, x->dtype, &rest, 1);
    ValueId bias = has_value(m->bias) ? emit_reshape(g, m->bias, &rest) : NO_VALUE;
    ValueId y = emit(g, &op_LayerNormalization, attrs, has_value(bias) ? 3 : 2, (const ValueId[]){ m->x, scale, bias });

    if (g->status)
        return;
    graph_replace(g, m->last[m->n_last - 1]->out[0], y);
    for (int i = m->n_last; i-- > 0;)
        graph_remove(g, m->last[i]);
}

static Status fuse_layer_norm_run(Graph *g, PassCtx *ctx)
{
    const uint32_t n_node = g->n_node;
    Uses u;

    TRY(uses_find(&u, g, ctx->scratch));
    TRY(rewrite_begin(g, ctx->scratch));
    for (uint32_t i = 0; i < n_node && !g->status; i++) {
        Found m = { 0 };

        rewrite_read(g, g->node[i]);
        if (!g->node[i]->op || !fuse_layer_norm_find(g, g->node[i], &m))
            continue;
        m.scale = take_in(&u, &m, &op_Mul);
        m.bias = take_in(&u, &m, &op_Add);
        fuse_layer_norm_rewrite(g, &m);
        ctx->n_changed++;
    }
    TRY(rewrite_end(g));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_fuse_layer_norm = { .name = "fuse-layer-norm",
                                    .summary = "merge layer normalisation written in single operators",
                                    .run = fuse_layer_norm_run };
