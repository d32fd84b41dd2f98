/* Recognition of batch normalisation out of training that an exporter wrote in single operators, with s = scale /
 * sqrt(variance + eps):
 *
 *   (x - mean) * s + bias,   x * s + (bias - mean * s),   x * s + (-mean * s + bias)
 *   W * s and (b - mean) * s + bias         around the weights and bias of a convolution, by onnxoptimizer
 *
 * Mean and variance were running statistics; they are no parameters. */
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ops/unary.gen.h"
#include "passes/model/parameters.h"

/* Does the node change only the shape or the type? */
static bool reshapes(const Node *n) { return n->op->same & (SAME_ANY & ~SAME_TYPED) || n->op == &op_Cast; }

ValueId formula_behind(const Graph *g, ValueId v)
{
    while (value(g, v)->producer && reshapes(value(g, v)->producer))
        v = value(g, v)->producer->in[0];
    return v;
}

/* The constant of several numbers that v is in another shape; NO_VALUE: none. */
static ValueId constant_behind(const Graph *g, ValueId v)
{
    v = formula_behind(g, v);
    return value_const(g, v) && value(g, v)->shape->rank > 0 && shape_numel(value(g, v)->shape) > 1 ? v : NO_VALUE;
}

/* The variance of sqrt(variance + eps) or (variance + eps)^-0.5; NO_VALUE: the node is neither. */
static ValueId variance_of(const Graph *g, const Node *n)
{
    const Node *sum = n->op == &op_Sqrt || n->op == &op_Pow ? in_value(g, n, 0)->producer : NULL;
    double exponent;

    if (n->op == &op_Pow && !(value_const_number(g, n->in[1], &exponent) && (exponent == -0.5 || exponent == 0.5)))
        return NO_VALUE;
    while (sum && reshapes(sum))
        sum = in_value(g, sum, 0)->producer;
    for (int i = 0; sum && sum->op == &op_Add && i < 2; i++) {
        const ValueId eps = formula_behind(g, sum->in[1 - i]);

        if (value_const(g, eps) && shape_numel(value(g, eps)->shape) == 1)
            return constant_behind(g, sum->in[i]);
    }
    return NO_VALUE;
}

/* Sets deviation, and normalises of the variances. */
static void find_variances(Reach *r, bool *deviation)
{
    const Graph *g = r->g;

    FOR_NODES(g, n) {
        ValueId variance = variance_of(g, n);
        bool from_variance = has_value(variance);

        if (from_variance)
            r->normalises[variance.i] = true;
        for (int k = 0; k < n->n_in; k++)
            from_variance |= has_value(n->in[k]) && deviation[n->in[k].i];
        for (int k = 0; k < n->n_out; k++)
            deviation[n->out[k].i] = from_variance && r->constant[n->out[k].i];
    }
}

/* Does n multiply v by a deviation, or divide v by it? */
static bool is_scaled(const bool *deviation, const Node *n, ValueId v)
{
    for (int i = 0; i < 2 && (n->op == &op_Mul || n->op == &op_Div); i++)
        if (value_eq(n->in[i], v) && deviation[n->in[1 - i].i] && (n->op == &op_Mul || i == 0))
            return true;
    return false;
}

/* The mean of a constant minus a product, bias - mean * s; NO_VALUE: the node is none. */
static ValueId shifted(const Reach *r, const bool *deviation, const Node *sub)
{
    const Node *product = sub->op == &op_Sub && r->constant[sub->in[0].i] ? in_value(r->g, sub, 1)->producer : NULL;

    for (int i = 0; product && i < 2; i++)
        if (is_scaled(deviation, product, product->in[i]))
            return constant_behind(r->g, product->in[i]);
    return NO_VALUE;
}

/* Sets normalises of the means. */
static void find_means(Reach *r, const bool *deviation)
{
    const Graph *g = r->g;

    FOR_NODES(g, n) {
        ValueId mean = shifted(r, deviation, n);

        for (int i = 0; i < n->n_in && !has_value(mean); i++) {
            const Node *from =
                has_value(n->in[i]) && is_scaled(deviation, n, n->in[i]) ? in_value(g, n, i)->producer : NULL;

            if (from && from->op == &op_Neg) /* -mean * s */
                mean = constant_behind(g, from->in[0]);
            else if (from && from->op == &op_Sub) /* x - mean, where x may be the bias of a convolution */
                mean = constant_behind(g, from->in[1]);
        }
        if (has_value(mean))
            r->normalises[mean.i] = true;
    }
}

/* Sets rescales, for the scale of scale * deviation and the shift of shift - mean * s.  A scale has a number for each
 * channel; a longer tensor is a filter that the norm was folded into. */
static void find_affine(Reach *r, const bool *deviation)
{
    const Graph *g = r->g;

    FOR_NODES(g, n) {
        for (int i = 0; i < 2 && (n->op == &op_Mul || n->op == &op_Div); i++) {
            const ValueId scale = r->constant[n->out[0].i] && deviation[n->in[1 - i].i] && !deviation[n->in[i].i]
                                      ? constant_behind(g, n->in[i])
                                      : NO_VALUE;

            if (has_value(scale) && !r->normalises[scale.i] &&
                shape_numel(value(g, scale)->shape) <= shape_numel(in_value(g, n, 1 - i)->shape))
                r->rescales[scale.i] = true;
        }
        if (has_value(shifted(r, deviation, n)) && has_value(constant_behind(g, n->in[0])))
            r->rescales[constant_behind(g, n->in[0]).i] = true;
    }
}

Status formula_find(Reach *r, Arena *a)
{
    bool *deviation = ARENA_NEW(a, bool, r->g->n_value); /* by value id: computed from a 1 / sqrt(variance + eps) */

    r->normalises = ARENA_NEW(a, bool, r->g->n_value);
    r->rescales = ARENA_NEW(a, bool, r->g->n_value);
    r->by_instance = ARENA_NEW(a, bool, r->g->n_value);
    if (!deviation || !r->normalises || !r->by_instance || !r->rescales)
        return FAIL_NOMEM();
    FOR_NODES(r->g, n)
        for (int i = 1; n->op == &op_InstanceNormalization && i < n->n_in; i++)
            r->by_instance[n->in[i].i] = true;
    find_variances(r, deviation);
    find_means(r, deviation);
    find_affine(r, deviation);
    return ST_OK;
}
