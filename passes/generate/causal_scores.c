/* A proof that later keys have no weight.  Masks are constants, which are read entry by entry; the operators that
 * exporters write between the scores and their softmax pass on bounds.
 *
 *     S[q,k] + M[q,k]              any number - 10^9       of later keys
 *     where(C[q,k], S[q,k], -inf)  -inf
 *     softmax                      0, as exp(-10^4) is 0 beside the exponential of the query's own key */
#include "passes/generate/causal_scores.h"

#include <math.h>

#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

static const double HIDDEN = -1e4; /* a masked score is at most this */

/* ---- constants ---- */

/* Position of element i along the axis that is `right` from the end; -1: it is broadcast there. */
static int64_t position(const Shape *s, int64_t i, int right)
{
    const int axis = s->rank - right;

    return axis < 0 || s->dim[axis] == 1 ? -1 : i / shape_count(s, axis + 1, s->rank) % s->dim[axis];
}

Later later_of_constant(const Graph *g, ValueId v, ScoreAxes axes, bool own)
{
    Later out = { false, (double)INFINITY, -(double)INFINITY };
    const Tensor *t;

    while (value(g, v)->producer && value(g, v)->producer->op == &op_Expand)
        v = value(g, v)->producer->in[0];
    if (!(t = value_const(g, v)))
        return LATER_ANY;
    for (int64_t i = 0; i < tensor_numel(t); i++) {
        const int64_t query = position(&t->shape, i, axes.query), key = position(&t->shape, i, axes.key);
        const double x = t->dtype == DT_BOOL ? (double)tensor_int(t, i) : tensor_float(t, i);

        if (query >= 0 && key >= 0 && (own ? key != query : key <= query))
            continue;
        if (isnan(x))
            return LATER_ANY;
        out.low = fmin(out.low, x);
        out.high = fmax(out.high, x);
    }
    return out.low <= out.high ? out : LATER_ANY;
}

/* ---- nodes ---- */

/* Infinities of both signs may meet, and make NaN. */
static Later add(const Later *a, const Later *b)
{
    const double inf = (double)INFINITY;

    if ((a->low == -inf && b->high == inf) || (a->high == inf && b->low == -inf))
        return LATER_ANY;
    return (Later){ a->any || b->any, a->low + b->low, a->high + b->high };
}

static Later negative(const Later *x) { return (Later){ x->any, -x->high, -x->low }; }

/* c times x, for a finite number c >= 0. */
static Later scaled(const Later *x, double c)
{
    if (c == 0)
        return isinf(x->low) || isinf(x->high) ? LATER_ANY : (Later){ false, 0, 0 };
    return c > 0 && !isinf(c) ? (Later){ x->any, c * x->low, c * x->high } : LATER_ANY;
}

static Later multiply(const Later *a, const Later *b)
{
    if (!a->any && a->low == a->high)
        return scaled(b, a->low);
    return !b->any && b->low == b->high ? scaled(a, b->low) : LATER_ANY;
}

static Later either(const Later *a, const Later *b)
{
    return (Later){ a->any || b->any, fmin(a->low, b->low), fmax(a->high, b->high) };
}

static Later choose(const Later *in)
{
    if (later_is_zero(&in[0]))
        return in[2];
    return !in[0].any && in[0].low > 0 ? in[1] : either(&in[1], &in[2]);
}

static Later cast(const Graph *g, const Node *n, const Later *x)
{
    const DType to = value(g, n->out[0])->dtype;

    if (to == DT_BOOL)
        return !x->any && x->low == x->high ? (Later){ false, x->low != 0, x->low != 0 } : LATER_ANY;
    return dtype_is_float(to) || in_value(g, n, 0)->dtype == DT_BOOL ? *x : LATER_ANY;
}

bool later_is_hidden(const Later *x, const Later *own) { return x->high <= HIDDEN && own->low >= HIDDEN / 2; }

Later later_of_node(const Graph *g, const Node *n, const Later *in)
{
    const OpDef *op = n->op;
    const Later *x = &in[0];

    if (op == &op_Cast)
        return cast(g, n, x);
    if (op->same || op->moves == 1) /* elements of input 0 in other places */
        return *x;
    if (op == &op_Add)
        return add(x, &in[1]);
    if (op == &op_Sub) {
        const Later minus = negative(&in[1]);

        return add(x, &minus);
    }
    if (op == &op_Mul || op == &op_And)
        return multiply(x, &in[1]);
    if (op == &op_Div)
        return !in[1].any && in[1].low == in[1].high && in[1].low > 0 ? scaled(x, 1 / in[1].low) : LATER_ANY;
    if (op == &op_Where)
        return choose(in);
    if (op == &op_IsNaN)
        return x->any ? LATER_ANY : (Later){ false, 0, 0 };
    return LATER_ANY;
}
