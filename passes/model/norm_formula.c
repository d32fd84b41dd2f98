/* Recognition of layer, group and RMS normalisation that an exporter wrote in single operators:
 *
 *   d / sqrt(mean(d * d) + eps) * scale + bias, where d is x - mean(x), or x
 *   InstanceNormalization(Reshape(x), ones, zeros) * scale + bias      for groups of channels
 *
 * Mean and variance come from x; those of a batch-norm out of training are constants (batch_norm_formula.c). */
#include "graph/ir/readers.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/layernorm.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.gen.h"
#include "passes/model/parameters.h"
#include "passes/options/update.h"

/* A value on the way from the normalisation to its end. */
typedef struct {
    enum { NOTHING, NORMALISED, SCALED } is;
    int axes; /* along which the normalisation goes, so many may scale and bias have */
} Progress;

/* The producer of the value, whatever its shape and type have become; NULL: none. */
static const Node *producer_behind(const Graph *g, ValueId v) { return value(g, formula_behind(g, v))->producer; }

static bool is_number(const Graph *g, ValueId v)
{
    const Value *x = value(g, formula_behind(g, v));

    return x->kind == V_CONST && shape_known(x->shape) && shape_numel(x->shape) == 1;
}

/* The operand of an operator with two inputs whose other operand is a number; NO_VALUE: there is none. */
static ValueId beside_number(const Graph *g, const Node *n)
{
    for (int i = 0; i < 2 && n->n_in == 2; i++)
        if (is_number(g, n->in[1 - i]))
            return n->in[i];
    return NO_VALUE;
}

/* The value below added numbers and lower bounds, such as variance of max(variance, 0) + eps. */
static ValueId without_bound(const Graph *g, ValueId v)
{
    for (const Node *n; (n = producer_behind(g, v)) && (n->op == &op_Add || n->op == &op_Max);) {
        const ValueId below = beside_number(g, n);

        if (!has_value(below))
            break;
        v = below;
    }
    return v;
}

/* The x of mean(x), or of sum(x) divided by a number; *axes: along how many axes.  NO_VALUE: v is none. */
static ValueId mean_of(const Graph *g, ValueId v, int *axes)
{
    const Node *n = producer_behind(g, v);
    unsigned mask;

    if (n && (n->op == &op_Div || n->op == &op_Mul)) {
        const ValueId sum = beside_number(g, n);

        n = has_value(sum) ? producer_behind(g, sum) : NULL;
    }
    if (!n || (n->op != &op_ReduceMean && n->op != &op_ReduceSum) || !shape_known(in_value(g, n, 0)->shape) ||
        (has_in(n, 1) && !value_const(g, n->in[1])) || reduce_axes(&mask, g, n))
        return NO_VALUE;
    *axes = __builtin_popcount(mask);
    return n->in[0];
}

/* The base of base * base, or of base ^ exponent. */
static ValueId power_of(const Graph *g, ValueId v, double exponent)
{
    const Node *n = producer_behind(g, v);
    double e;

    if (n && n->op == &op_Mul && exponent == 2 && value_eq(n->in[0], n->in[1]))
        return n->in[0];
    return n && n->op == &op_Pow && value_const_number(g, formula_behind(g, n->in[1]), &e) && e == exponent ? n->in[0]
                                                                                                            : NO_VALUE;
}

static ValueId square_root_of(const Graph *g, ValueId v)
{
    const Node *n = producer_behind(g, v);

    return n && n->op == &op_Sqrt ? n->in[0] : power_of(g, v, 0.5);
}

/* The variance of 1 / sqrt(variance). */
static ValueId inverse_root_of(const Graph *g, ValueId v)
{
    const Node *n = producer_behind(g, v);

    if (n && n->op == &op_Reciprocal)
        return square_root_of(g, n->in[0]);
    if (n && n->op == &op_Div && is_number(g, n->in[0]))
        return square_root_of(g, n->in[1]);
    return power_of(g, v, -0.5);
}

/* The x of x - mean(x); any other value stands for itself. */
static ValueId without_mean(const Graph *g, ValueId v)
{
    const Node *n = producer_behind(g, v);
    int unused;
    const ValueId mean = n && n->op == &op_Sub ? mean_of(g, n->in[1], &unused) : NO_VALUE;

    return formula_behind(g,
                          has_value(mean) && value_eq(formula_behind(g, mean), formula_behind(g, n->in[0])) ? mean : v);
}

/* Is the variance mean(d * d), or mean(x * x) - mean(x) ^ 2, with the mean of d or without? */
static bool is_variance(const Graph *g, ValueId v, ValueId d, int *axes)
{
    const Node *n;
    ValueId squares, base;

    v = without_bound(g, v);
    n = producer_behind(g, v);
    squares = mean_of(g, n && n->op == &op_Sub ? n->in[0] : v, axes);
    base = has_value(squares) ? power_of(g, squares, 2) : NO_VALUE;
    return has_value(base) && value_eq(without_mean(g, base), without_mean(g, d));
}

/* Is n d / sqrt(variance of d)? */
static bool normalises(const Graph *g, const Node *n, int *axes)
{
    ValueId variance;

    if (n->op == &op_Div && has_value(variance = square_root_of(g, without_bound(g, n->in[1]))))
        return is_variance(g, variance, n->in[0], axes);
    for (int i = 0; n->op == &op_Mul && i < 2; i++)
        if (has_value(variance = inverse_root_of(g, n->in[1 - i])) && is_variance(g, variance, n->in[i], axes))
            return true;
    return false;
}

/* Is n the normalisation of groups of channels, whose scale comes later? */
static bool normalises_groups(const Graph *g, const Node *n)
{
    const Value *x = n->op == &op_InstanceNormalization ? in_value(g, n, 0) : NULL,
                *scale = x ? in_value(g, n, 1) : NULL;

    return x && x->producer && x->producer->op->same & SAME_SHAPED && scale->kind == V_CONST && scale->init &&
           (shape_numel(scale->shape) == 1 || tensor_looks(scale->init) == LOOKS_UNIFORM);
}

/* May the constant scale or shift what was normalised along so many axes? */
static bool is_affine(const Graph *g, ValueId v, int axes)
{
    const Shape *s = value(g, v)->shape;
    int long_axes = 0;

    for (int i = 0; shape_known(s) && i < s->rank; i++)
        long_axes += s->dim[i] > 1;
    return long_axes > 0 && long_axes <= axes;
}

/* Adds the kind of a scale or bias that n gives a stage, and returns the stage behind n. */
static Progress apply(unsigned char *kind, const Reach *r, const Progress *stage, const Node *n)
{
    for (int i = 0; i < 2 && n->n_in == 2; i++) {
        const Progress from = stage[n->in[1 - i].i];
        const bool scales = n->op == &op_Mul && from.is == NORMALISED, shifts = n->op == &op_Add && from.is != NOTHING;

        if ((!scales && !shifts) || !r->constant[n->in[i].i] || !is_affine(r->g, n->in[i], from.axes))
            continue;
        kind[n->in[i].i] |= scales ? KIND_NORM : KIND_NORM | KIND_BIAS;
        return (Progress){ scales ? SCALED : NOTHING, from.axes };
    }
    return (Progress){ NOTHING, 0 };
}

Status norm_formula_find(unsigned char *kind, const Reach *r, Arena *a)
{
    const Graph *g = r->g;
    Progress *stage = ARENA_NEW(a, Progress, g->n_value);

    if (!stage)
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        Progress *out = n->n_out == 1 && has_value(n->out[0]) ? &stage[n->out[0].i] : NULL;
        int axes = 1;

        if (!out || r->constant[n->out[0].i])
            continue;
        if (normalises(g, n, &axes) || normalises_groups(g, n))
            *out = (Progress){ NORMALISED, axes };
        else if (value_eq(formula_behind(g, n->out[0]), n->out[0]))
            *out = apply(kind, r, stage, n);
        else
            *out = stage[n->in[0].i];
    }
    return ST_OK;
}
