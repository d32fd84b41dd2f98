/* The optimizers of ai.onnx.preview.training, as nodes of a model: inputs R (the learning rate), T (the number of
 * updates done), then X1, X2 ..., their gradients and each of their states; outputs what X and the states become.
 * They are written in simpler operators, tensor by tensor.  Formulas: ONNX, operators of ai.onnx.preview.training. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/preview_training.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/where.gen.h"

enum { R, T, FIRST };

/* The update of one tensor: the learning rate and the number of updates, its values, its gradient with the penalty of
 * its norm, its states; and the next values of the tensor and the states. */
typedef struct {
    Graph *g;
    const Node *n;
    DType type;
    ValueId rate, t, x, gradient, state[2], next_x, next[2];
} Updating;

static ValueId number(const Updating *u, double v) { return emit_scalar(u->g, u->type, v); }

static ValueId scaled(const Updating *u, ValueId x, double by) { return EMIT(u->g, Mul, NULL, x, number(u, by)); }

static ValueId sum(const Updating *u, ValueId a, ValueId b) { return EMIT(u->g, Add, NULL, a, b); }

static ValueId square(const Updating *u, ValueId x) { return EMIT(u->g, Mul, NULL, x, x); }

/* x less `rate` times `step`. */
static void descend(Updating *u, ValueId rate, ValueId step)
{
    u->next_x = EMIT(u->g, Sub, NULL, u->x, EMIT(u->g, Mul, NULL, rate, step));
}

static ValueId is_later(const Updating *u) { return EMIT(u->g, Greater, NULL, u->t, emit_scalar(u->g, DT_INT64, 0)); }

static ValueId root(const Updating *u, ValueId x)
{
    const ValueId epsilon = number(u, node_float(u->n, "epsilon"));

    return sum(u, EMIT(u->g, Sqrt, NULL, x), epsilon);
}

static void update_adagrad(Updating *u)
{
    const ValueId t = emit_cast(u->g, u->t, u->type);
    ValueId decay = scaled(u, t, node_float(u->n, "decay_factor"));

    decay = sum(u, number(u, 1), decay);
    u->next[0] = sum(u, u->state[0], square(u, u->gradient));
    decay = EMIT(u->g, Div, NULL, u->rate, decay);
    descend(u, decay, EMIT(u->g, Div, NULL, u->gradient, root(u, u->next[0])));
}

/* 1 - by^T */
static ValueId bias(const Updating *u, double by)
{
    const ValueId one = number(u, 1), base = number(u, by);

    return EMIT(u->g, Sub, NULL, one, EMIT(u->g, Pow, NULL, base, emit_cast(u->g, u->t, u->type)));
}

static void update_adam(Updating *u)
{
    const double alpha = node_float(u->n, "alpha"), beta = node_float(u->n, "beta");
    ValueId rate = EMIT(u->g, Sqrt, NULL, bias(u, beta)), added;

    rate = EMIT(u->g, Mul, NULL, u->rate, rate);
    rate = EMIT(u->g, Div, NULL, rate, bias(u, alpha));
    rate = EMIT(u->g, Where, NULL, is_later(u), rate, u->rate);
    added = scaled(u, u->gradient, 1 - alpha);
    u->next[0] = sum(u, scaled(u, u->state[0], alpha), added);
    added = scaled(u, square(u, u->gradient), 1 - beta);
    u->next[1] = sum(u, scaled(u, u->state[1], beta), added);
    descend(u, rate, EMIT(u->g, Div, NULL, u->next[0], root(u, u->next[1])));
    u->next_x = scaled(u, u->next_x, 1 - node_float(u->n, "norm_coefficient_post"));
}

static void update_momentum(Updating *u)
{
    const double alpha = node_float(u->n, "alpha");
    const ValueId later = is_later(u), beta = number(u, node_float(u->n, "beta")),
                  weight = EMIT(u->g, Where, NULL, later, beta, number(u, 1)),
                  added = EMIT(u->g, Mul, NULL, weight, u->gradient);
    ValueId step;

    u->next[0] = sum(u, scaled(u, u->state[0], alpha), added);
    step = u->next[0];
    if (!strcmp(node_string(u->n, "mode"), "nesterov"))
        step = sum(u, u->gradient, scaled(u, step, alpha));
    descend(u, u->rate, step);
}

static int states_of(const Node *n) { return n->op == &op_Adam ? 2 : 1; }

static Status preview_training_infer(Graph *g, Node *n)
{
    const int groups = 2 + states_of(n), count = (n->n_in - FIRST) / groups;
    DType type;

    if (!count || n->n_in != FIRST + groups * count || n->n_out > (groups - 1) * count)
        return FAIL(E_MODEL, "%s: %d inputs and %d outputs, expected 2 + %d and %d for each tensor", node_text(g, n),
                    n->n_in, n->n_out, groups, groups - 1);
    for (int i = 0; i < FIRST; i++)
        if (!has_in(n, i) || shape_numel(in_value(g, n, i)->shape) != 1 || in_value(g, n, i)->shape->rank > 1)
            return FAIL(E_SHAPE, "%s: %s must be one number", node_text(g, n), i ? "T" : "R");
    type = in_value(g, n, R)->dtype;
    if (in_value(g, n, T)->dtype != DT_INT64)
        return FAIL(E_MODEL, "%s: T is %s, expected int64", node_text(g, n), dtype_name(in_value(g, n, T)->dtype));
    for (int i = FIRST; i < n->n_in; i++) {
        const Value *x = has_in(n, FIRST + (i - FIRST) % count) ? in_value(g, n, FIRST + (i - FIRST) % count) : NULL;

        if (!x || !has_in(n, i) || in_value(g, n, i)->dtype != type || !shape_eq(in_value(g, n, i)->shape, x->shape))
            return FAIL(E_SHAPE, "%s: input %d does not have the type of R and the shape of its tensor",
                        node_text(g, n), i);
    }
    for (int i = 0; i < n->n_out; i++)
        set_out(g, n, i, type, in_value(g, n, FIRST + i % count)->shape);
    return g->status;
}

static Status preview_training_lower(Graph *g, Node *n)
{
    const int states = states_of(n), count = (n->n_in - FIRST) / (2 + states);
    const Shape scalar = shape_scalar();
    const ValueId rate = emit_reshape(g, n->in[R], &scalar), t = emit_reshape(g, n->in[T], &scalar);

    for (int i = 0; i < count && !g->status; i++) {
        Updating u = { .g = g, .n = n, .type = in_value(g, n, R)->dtype, .rate = rate, .t = t, .x = n->in[FIRST + i] };

        u.gradient = sum(&u, scaled(&u, u.x, node_float(n, "norm_coefficient")), n->in[FIRST + count + i]);
        for (int s = 0; s < states; s++)
            u.state[s] = n->in[FIRST + (2 + s) * count + i];
        (n->op == &op_Adam ? update_adam : n->op == &op_Adagrad ? update_adagrad : update_momentum)(&u);
        if (!g->status && has_out(n, i))
            graph_replace(g, n->out[i], u.next_x);
        for (int s = 0; s < states && !g->status; s++)
            if (has_out(n, (1 + s) * count + i))
                graph_replace(g, n->out[(1 + s) * count + i], u.next[s]);
    }
    return g->status;
}

#define OPTIMIZER                                                                                \
    .domain = "ai.onnx.preview.training", .since = 1, .in_max = -1, .out_min = 1, .out_max = -1, \
    .dtypes = DTYPES_F32_F64, .infer = preview_training_infer, .lower = preview_training_lower

DEFINE_OP(Adagrad, OPTIMIZER, .in_min = 5,
          .attrs = (const AttrDecl[]){ { "decay_factor", A_FLOAT, .f = 0 },
                                       { "epsilon", A_FLOAT, .f = 1e-6 },
                                       { "norm_coefficient", A_FLOAT, .f = 0 },
                                       { 0 } },
          .doc = "a step of Adagrad");
DEFINE_OP(Adam, OPTIMIZER, .in_min = 6,
          .attrs = (const AttrDecl[]){ { "alpha", A_FLOAT, .f = 0.9 },
                                       { "beta", A_FLOAT, .f = 0.999 },
                                       { "epsilon", A_FLOAT, .f = 1e-6 },
                                       { "norm_coefficient", A_FLOAT, .f = 0 },
                                       { "norm_coefficient_post", A_FLOAT, .f = 0 },
                                       { 0 } },
          .doc = "a step of Adam");
DEFINE_OP(Momentum, OPTIMIZER, .in_min = 5,
          .attrs = (const AttrDecl[]){ { "alpha", A_FLOAT, .rule = ATTR_REQUIRED },
                                       { "beta", A_FLOAT, .rule = ATTR_REQUIRED },
                                       { "mode", A_STRING, .rule = ATTR_REQUIRED, .words = "standard nesterov" },
                                       { "norm_coefficient", A_FLOAT, .rule = ATTR_REQUIRED },
                                       { 0 } },
          .doc = "a step of stochastic gradient descent with momentum");
