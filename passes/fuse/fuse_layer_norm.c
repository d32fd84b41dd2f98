/* fuse-layer-norm: layer normalisation written in single operators becomes one LayerNormalization.
 *
 *   d = x - mean(x);    y = d / sqrt(mean(d^2) + epsilon);    optionally y * scale, then + bias
 *
 * as exporters write it for opsets before 17, the means over the last axes (passes/simplify/lower.c has made sums and
 * divisions of them).  Legal because it is the same function, and its gradient reads x alone, where the single
 * operators keep d, the quotient and the root of every row until the backward pass; hence before autodiff.  Scale and
 * bias are taken in where they are parameters (or frozen) of the normalised shape and what they change has no other
 * reader.  Whoever else reads a part keeps that part.  Where the first axis is among the normalised it stays a sum,
 * which can be exact over a batch in parts. */
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
    Node *last[3]; /* Div (Mul), then that by scale, that by bias */
    int n_last, axis;
    double epsilon;
} Found;

/* A constant number that n takes, and *v the other input. */
static bool with_number(const Graph *g, const Node *n, ValueId *v, double *number)
{
    const int at = n ? const_input(g, n, number) : -1;

    if (at >= 0)
        *v = n->in[1 - at];
    return at >= 0;
}

static bool power(const Graph *g, ValueId v, double exponent, ValueId *base)
{
    const Node *n = made_by(g, v, &op_Pow);
    double e;

    if (!n || !value_const_number(g, n->in[1], &e) || e != exponent)
        return false;
    *base = n->in[0];
    return true;
}

/* The first of the last axes that n reduces, which it keeps with size 1; 0: others, or all. */
static int first_axis(const Graph *g, const Node *n)
{
    const Shape *s = in_value(g, n, 0)->shape;
    unsigned mask;
    int axis = s->rank;

    if (!shape_known(s) || !node_int(n, "keepdims") || (has_in(n, 1) && !value_const(g, n->in[1])))
        return 0;
    if (reduce_axes(&mask, g, n))
        return 0;
    while (axis > 0 && mask >> (axis - 1) & 1)
        axis--;
    return axis < s->rank && mask == (1u << s->rank) - (1u << axis) ? axis : 0;
}

/* v = mean of x over the axes from *axis on. */
static bool fuse_layer_norm_is_mean(const Graph *g, ValueId v, ValueId *x, int *axis)
{
    const Node *n = made_by(g, v, &op_Div), *sum;
    const Shape *s;
    ValueId total;
    double divisor;

    if (n) {
        total = n->in[0];
        if (!value_const_number(g, n->in[1], &divisor))
            return false;
    } else {
        if (!with_number(g, made_by(g, v, &op_Mul), &total, &divisor))
            return false;
        divisor = 1 / divisor;
    }
    if (!(sum = made_by(g, total, &op_ReduceSum)) || !(*axis = first_axis(g, sum)))
        return false;
    *x = sum->in[0];
    s = value(g, *x)->shape;
    return fabs(divisor / (double)shape_count(s, *axis, s->rank) - 1) <= ROUNDING;
}

static bool is_square(const Graph *g, ValueId v, ValueId *root)
{
    const Node *n = made_by(g, v, &op_Mul);

    if (!n)
        return power(g, v, 2, root);
    *root = n->in[0];
    return value_eq(n->in[0], n->in[1]);
}

/* v = mean of d^2 + epsilon, over the axes that `m` has. */
static bool is_variance(const Graph *g, ValueId v, ValueId d, Found *m)
{
    ValueId mean, squares, root;
    int axis;

    return with_number(g, made_by(g, v, &op_Add), &mean, &m->epsilon) && m->epsilon >= 0 && isfinite(m->epsilon) &&
           fuse_layer_norm_is_mean(g, mean, &squares, &axis) && axis == m->axis && is_square(g, squares, &root) &&
           value_eq(root, d);
}

static bool is_root(const Graph *g, ValueId v, ValueId *square)
{
    const Node *n = made_by(g, v, &op_Sqrt);

    if (!n)
        return power(g, v, 0.5, square);
    *square = n->in[0];
    return true;
}

static bool is_inverse_root(const Graph *g, ValueId v, ValueId *square)
{
    const Node *n = made_by(g, v, &op_Reciprocal), *quotient = made_by(g, v, &op_Div);
    double one;

    if (n)
        return is_root(g, n->in[0], square);
    if (quotient)
        return value_const_number(g, quotient->in[0], &one) && one == 1 && is_root(g, quotient->in[1], square);
    return power(g, v, -0.5, square);
}

/* d = x - mean(x), to be divided by the root of `variance`. */
static bool normalises(const Graph *g, ValueId d, ValueId variance, Found *m)
{
    const Node *n = made_by(g, d, &op_Sub);

    return n && fuse_layer_norm_is_mean(g, n->in[1], &m->x, &m->axis) && value_eq(m->x, n->in[0]) &&
           is_variance(g, variance, d, m);
}

/* Numbers of more axes than x would have given all that is computed with them, and so y, more axes. */
static bool fuse_layer_norm_find(const Graph *g, Node *n, Found *m)
{
    ValueId variance;
    bool found = n->op == &op_Div && is_root(g, n->in[1], &variance) && normalises(g, n->in[0], variance, m);

    for (int i = 0; n->op == &op_Mul && !found && i < 2; i++)
        found = is_inverse_root(g, n->in[1 - i], &variance) && normalises(g, n->in[i], variance, m);
    m->last[m->n_last++] = n;
    return found && shape_eq(value(g, n->out[0])->shape, value(g, m->x)->shape) &&
           (value(g, m->x)->dtype == DT_FLOAT32 || value(g, m->x)->dtype == DT_FLOAT64);
}

/* ---- scale and bias ---- */

/* Whether `v` is a parameter, or a constant, whose shape is the normalised part of x's, with or without ones in
 * front. */
static bool fuse_layer_norm_fits(const Value *v, const Shape *x, int axis)
{
    const Shape *s = v->shape;
    int ahead = s->rank - (x->rank - axis);

    if ((v->kind != V_STATE && v->kind != V_CONST) || ahead < 0 || s->rank > x->rank)
        return false;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] != (i < ahead ? 1 : x->dim[axis + i - ahead]))
            return false;
    return true;
}

/* What the only reader of the last value, an `op`, combines it with: that reader is the last node then.  Else
 * NO_VALUE. */
static ValueId take_in(const Uses *u, Found *m, const OpDef *op)
{
    const ValueId v = m->last[m->n_last - 1]->out[0];
    Node *n = only_reader(u, v);
    ValueId other;

    if (!n || n->op != op)
        return NO_VALUE;
    other = n->in[value_eq(n->in[0], v)];
    if (!fuse_layer_norm_fits(value(u->g, other), value(u->g, m->x)->shape, m->axis))
        return NO_VALUE;
    m->last[m->n_last++] = n;
    return other;
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
