/* Batch normalisation out of training, written in single operators as some exporters do: (x - mean) * (scale /
 * sqrt(variance + eps)) + bias, or x * s + (bias - mean * s), or x * s + (-mean * s + bias).  onnxoptimizer writes
 * it around a convolution's weights: W * s and (b - mean) * s + bias.  Mean and variance are what running statistics
 * were, and no parameters. */
#include "passes/model/parameters.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ops/unary.gen.h"

typedef struct {
    Reach *r;
    bool *deviation; /* by value id: computed from a 1 / sqrt(variance + eps) */
} Formula;

/* Only the shape changes, or the type. */
static bool reshapes(const Node *n) { return n->op->same & (SAME_ANY & ~SAME_TYPED) || n->op == &op_Cast; }

static ValueId behind(const Graph *g, ValueId v)
{
    while (value(g, v)->producer && reshapes(value(g, v)->producer))
        v = value(g, v)->producer->in[0];
    return v;
}

static bool one_number(const Graph *g, ValueId v)
{
    v = behind(g, v);
    return value_const(g, v) && shape_numel(value(g, v)->shape) == 1;
}

/* The constant of several numbers that `v` is, in another shape; NO_VALUE: none. */
static ValueId constant_behind(const Graph *g, ValueId v)
{
    v = behind(g, v);
    return value_const(g, v) && value(g, v)->shape->rank > 0 && shape_numel(value(g, v)->shape) > 1 ? v : NO_VALUE;
}

/* The variance of sqrt(variance + eps) or (variance + eps)^-0.5. */
static ValueId variance_of(const Graph *g, const Node *n)
{
    const Node *sum = n->op == &op_Sqrt || n->op == &op_Pow ? in_value(g, n, 0)->producer : NULL;
    double exponent;

    if (n->op == &op_Pow && !(value_const_number(g, n->in[1], &exponent) && (exponent == -0.5 || exponent == 0.5)))
        return NO_VALUE;
    while (sum && reshapes(sum))
        sum = in_value(g, sum, 0)->producer;
    for (int i = 0; sum && sum->op == &op_Add && i < 2; i++)
        if (one_number(g, sum->in[1 - i]))
            return constant_behind(g, sum->in[i]);
    return NO_VALUE;
}

static void find_variances(Formula *f)
{
    const Graph *g = f->r->g;

    FOR_NODES(g, n) {
        ValueId variance = variance_of(g, n);
        bool from_variance = has_value(variance);

        if (from_variance)
            f->r->normalises[variance.i] = true;
        for (int k = 0; k < n->n_in; k++)
            from_variance |= has_value(n->in[k]) && f->deviation[n->in[k].i];
        for (int k = 0; k < n->n_out; k++)
            f->deviation[n->out[k].i] = from_variance && f->r->constant[n->out[k].i];
    }
}

/* `n` scales `v` by a deviation: the other operand of a product, or the divisor. */
static bool is_scaled(const Formula *f, const Node *n, ValueId v)
{
    for (int i = 0; i < 2 && (n->op == &op_Mul || n->op == &op_Div); i++)
        if (value_eq(n->in[i], v) && f->deviation[n->in[1 - i].i] && (n->op == &op_Mul || i == 0))
            return true;
    return false;
}

/* x - mean, if `v` is that; x may be the bias of a convolution that the norm was folded into. */
static ValueId subtracted(const Formula *f, ValueId v)
{
    const Node *n = value(f->r->g, v)->producer;

    return n && n->op == &op_Sub ? constant_behind(f->r->g, n->in[1]) : NO_VALUE;
}

/* bias - mean * s: the mean of the product that a constant is subtracted as. */
static ValueId shifted(const Formula *f, const Node *sub)
{
    const Node *product =
        sub->op == &op_Sub && f->r->constant[sub->in[0].i] ? in_value(f->r->g, sub, 1)->producer : NULL;

    for (int i = 0; product && i < 2; i++)
        if (is_scaled(f, product, product->in[i]))
            return constant_behind(f->r->g, product->in[i]);
    return NO_VALUE;
}

/* -mean * s */
static ValueId negated(const Formula *f, ValueId v)
{
    const Node *n = value(f->r->g, v)->producer;

    return n && n->op == &op_Neg ? constant_behind(f->r->g, n->in[0]) : NO_VALUE;
}

static void find_means(Formula *f)
{
    FOR_NODES(f->r->g, n) {
        ValueId mean = shifted(f, n);

        for (int i = 0; i < n->n_in && !has_value(mean); i++)
            if (has_value(n->in[i]) && is_scaled(f, n, n->in[i]))
                mean = has_value(negated(f, n->in[i])) ? negated(f, n->in[i]) : subtracted(f, n->in[i]);
        if (has_value(mean))
            f->r->normalises[mean.i] = true;
    }
}

/* A norm's scale, a number for each channel, rather than a filter that the norm was folded into. */
static bool is_as_long(const Graph *g, ValueId scale, ValueId deviation)
{
    return shape_numel(value(g, scale)->shape) <= shape_numel(value(g, deviation)->shape);
}

/* Those of scale * deviation and of shift - mean * s. */
static void find_affine(Formula *f)
{
    const Graph *g = f->r->g;

    FOR_NODES(g, n) {
        for (int i = 0; i < 2 && (n->op == &op_Mul || n->op == &op_Div); i++) {
            const ValueId scale =
                f->r->constant[n->out[0].i] && f->deviation[n->in[1 - i].i] && !f->deviation[n->in[i].i]
                    ? constant_behind(g, n->in[i])
                    : NO_VALUE;

            if (has_value(scale) && !f->r->normalises[scale.i] && is_as_long(g, scale, n->in[1 - i]))
                f->r->rescales[scale.i] = true;
        }
        if (has_value(shifted(f, n)) && has_value(constant_behind(g, n->in[0])))
            f->r->rescales[constant_behind(g, n->in[0]).i] = true;
    }
}

static void find_instances(Reach *r)
{
    FOR_NODES(r->g, n)
        for (int i = 1; n->op == &op_InstanceNormalization && i < n->n_in; i++)
            r->by_instance[n->in[i].i] = true;
}

Status formula_find(Reach *r, Arena *a)
{
    Formula f = { r, ARENA_NEW(a, bool, r->g->n_value) };

    r->normalises = ARENA_NEW(a, bool, r->g->n_value);
    r->rescales = ARENA_NEW(a, bool, r->g->n_value);
    r->by_instance = ARENA_NEW(a, bool, r->g->n_value);
    if (!f.deviation || !r->normalises || !r->by_instance || !r->rescales)
        return FAIL_NOMEM();
    find_instances(r);
    find_variances(&f);
    find_means(&f);
    find_affine(&f);
    return ST_OK;
}
