/* The role of each constant in the model (REACH_), found backwards from the operators that read it.  A constant that
 * only feeds computation on other constants (a transposed, tied or normalised weight) has the role of the result. */

#include "passes/model/parameters.h"

enum { FEW = 4 }; /* colour channels, with transparency */

static bool has_weights(const Node *n) { return n->op->param_in && !(n->op->flags & OPF_PARAM_MAYBE); }

/* Sets live, constant and raw. */
static void find_origins(Reach *r)
{
    const Graph *g = r->g;

    for (int i = 0; i < g->n_output; i++)
        if (value(g, g->output[i].value)->producer)
            r->live[value(g, g->output[i].value)->producer->index] = true;
    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];

        for (int k = 0; n->op && r->live[i] && k < n->n_in; k++)
            if (has_value(n->in[k]) && in_value(g, n, k)->producer)
                r->live[in_value(g, n, k)->producer->index] = true;
    }
    for (uint32_t i = 1; i < g->n_value; i++) {
        r->constant[i] = g->value[i]->kind == V_CONST;
        r->raw[i] = g->value[i]->kind == V_INPUT;
    }
    FOR_NODES(g, n) {
        bool constant = n->n_in > 0 && !(n->op->flags & OPF_RANDOM), raw = !has_weights(n), any_raw = false;

        for (int k = 0; k < n->n_in; k++) {
            if (!has_value(n->in[k]) || op_is_gradient_only(n->op, k))
                continue;
            constant &= r->constant[n->in[k].i];
            raw &= r->constant[n->in[k].i] || r->raw[n->in[k].i];
            any_raw |= r->raw[n->in[k].i];
        }
        for (int k = 0; k < n->n_out; k++) {
            r->constant[n->out[k].i] = constant;
            r->raw[n->out[k].i] = raw && any_raw;
        }
    }
}

/* May a derivative pass from the outputs to input i? */
static bool differentiable(const Graph *g, const Node *n, int i)
{
    if (n->op->flags & (OPF_ZERO_GRAD | OPF_SHAPE_ONLY) || (i < 8 && n->op->setting_in >> i & 1))
        return false;
    for (int k = 0; k < n->n_out; k++)
        if (has_value(n->out[k]) && dtype_is_float(value(g, n->out[k])->dtype))
            return true;
    return false;
}

/* Does the other of two inputs come from an operator with weights? */
static bool follows_weights(const Reach *r, const Node *n, int i)
{
    const Node *from = n->n_in == 2 ? in_value(r->g, n, 1 - i)->producer : NULL;

    return from && has_weights(from);
}

/* RNN, GRU and LSTM are the only operators with two matrices of weights and a bias. */
static bool is_cell(const Node *n) { return (n->op->param_in & 15) == 14; }

/* The role of a constant at input i. */
static uint16_t reach_of_input(const Reach *r, const Node *n, int i)
{
    const Shape *s = in_value(r->g, n, i)->shape;

    if (i < 8 && n->op->running_in >> i & 1)
        return REACH_STATISTIC;
    if (!differentiable(r->g, n, i))
        return 0;
    if (i < 8 && n->op->tunable_in >> i & 1)
        return REACH_SETTING;
    if (has_weights(n) && i < 8 && n->op->param_in >> i & 1)
        return n->op->flags & OPF_NORM ? REACH_NORM : is_cell(n) ? REACH_WEIGHT | REACH_CELL : REACH_WEIGHT;
    if (n->op->flags & OPF_SUM && follows_weights(r, n, i))
        return REACH_BIAS;
    if (n->op->elementwise && n->n_in == 2 && shape_known(s) && shape_numel(s) > 0 && shape_numel(s) <= FEW &&
        r->raw[n->in[1 - i].i])
        return REACH_COLOUR;
    if (n->op->flags & OPF_PARAM_MAYBE)
        return REACH_TERM;
    return i < 8 && n->op->ratio_in >> i & 1 ? REACH_RATIO : REACH_FLOW;
}

/* Is the constant at input i added to several channels of an operator with weights?  One number there is no bias. */
static bool is_spread(const Reach *r, const Node *n, int i)
{
    const Node *from = n->op->flags & OPF_SUM && follows_weights(r, n, i) ? in_value(r->g, n, 1 - i)->producer : NULL;
    const Shape *s = from ? in_value(r->g, n, 1 - i)->shape : NULL;
    const int axis = from && from->op->filter_in ? 1 : s ? s->rank - 1 : -1;

    return axis >= 0 && axis < s->rank && s->dim[axis] > 1;
}

/* The constant of one number that n multiplies by; NO_VALUE: there is none. */
static ValueId scale_of(const Reach *r, const Node *n)
{
    for (int i = 0; n && n->op && n->op->flags & OPF_PARAM_MAYBE && !(n->op->flags & OPF_SUM) && i < n->n_in; i++)
        if (r->constant[n->in[i].i] && shape_known(in_value(r->g, n, i)->shape) &&
            shape_numel(in_value(r->g, n, i)->shape) == 1)
            return n->in[i];
    return NO_VALUE;
}

/* Sets reach, both and spread. */
static void find_reach(Reach *r)
{
    const Graph *g = r->g;

    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];
        bool through = false; /* the node's outputs are constants as well */
        uint16_t of_outputs = 0;

        for (int k = n->n_out; n->op && r->live[i] && k-- > 0;)
            if (has_value(n->out[k])) {
                through = r->constant[n->out[k].i];
                of_outputs |= r->reach[n->out[k].i];
            }
        if (n->op && has_weights(n) && has_in(n, 0) && has_in(n, 1)) {
            const ValueId a = scale_of(r, in_value(g, n, 0)->producer), b = scale_of(r, in_value(g, n, 1)->producer);

            if (has_value(a) && value_eq(a, b))
                r->both[a.i] = true;
        }
        for (int k = 0; n->op && r->live[i] && k < n->n_in; k++) {
            if (!has_value(n->in[k]) || !r->constant[n->in[k].i] || !dtype_is_float(in_value(g, n, k)->dtype))
                continue;
            r->reach[n->in[k].i] |= !through ? reach_of_input(r, n, k) : differentiable(g, n, k) ? of_outputs : 0;
            r->spread[n->in[k].i] |= !through && is_spread(r, n, k);
        }
    }
}

Status reach_find(Reach *r, const Graph *g, Arena *a)
{
    *r = (Reach){ .g = g };
    r->live = ARENA_NEW(a, bool, g->n_node);
    r->constant = ARENA_NEW(a, bool, g->n_value);
    r->raw = ARENA_NEW(a, bool, g->n_value);
    r->reach = ARENA_NEW(a, uint16_t, g->n_value);
    r->both = ARENA_NEW(a, bool, g->n_value);
    r->spread = ARENA_NEW(a, bool, g->n_value);
    if (!r->both || !r->spread || !r->live || !r->constant || !r->raw || !r->reach)
        return FAIL_NOMEM();
    find_origins(r);
    for (int i = 0; i < g->n_output; i++)
        if (r->constant[g->output[i].value.i])
            r->reach[g->output[i].value.i] |= REACH_FLOW;
    find_reach(r);
    return formula_find(r, a);
}
