/* Functions that optimizers share: they build the formula of an update once for all parameters of a type, and emit the
 * nodes that apply it. */
#include "graph/recipes/optimizer.h"

#include <assert.h>
#include <stdlib.h>

#include "graph/ir/body.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/optimizer.gen.h"
#include "graph/ops/update.gen.h"
#include "graph/ops/where.gen.h"

/* ---- formulas ---- */

ValueId formula_node(UpdateRule *f, const OpDef *op, int n, const ValueId *in)
{
    const Node *x = f->g->status ? NULL : graph_add_node(f->g, op, op->name, NULL, n, in, 1, NULL);

    return x && !f->g->status ? x->out[0] : NO_VALUE;
}

ValueId formula_number(UpdateRule *f, double v) { return emit_scalar(f->g, f->o->type, v); }

/* Adds a scalar input to the formula; `given` is its value in the training graph. */
static ValueId add_scalar(UpdateRule *f, ValueId given)
{
    Graph *g = f->o->g;

    if (f->n_scalar == FORMULA_SCALARS && !g->status)
        g->status = FAIL(E_INTERNAL, "a formula of more than %d scalars", FORMULA_SCALARS);
    if (g->status)
        return NO_VALUE;
    f->given[f->n_scalar] = given;
    return f->scalar[f->n_scalar++] = body_input(f->g, "scalar");
}

ValueId formula_scalar(UpdateRule *f, ValueId v)
{
    Graph *g = f->o->g;

    return add_scalar(f, g->status || value(g, v)->dtype == DT_BOOL ? v : emit_cast(g, v, f->o->type));
}

ValueId formula_norm_scale(UpdateRule *f, ValueId x, NormScale *scale, const void *settings)
{
    f->norm.of = x;
    f->norm.scale = scale;
    f->norm.settings = settings;
    f->norm.scalar = f->n_scalar;
    return add_scalar(f, NO_VALUE);
}

ValueId formula_lr64(const UpdateRule *f)
{
    return emit_cast(f->o->g, emit_cast(f->o->g, f->o->lr, f->o->type), DT_FLOAT64);
}

ValueId formula_quotient(Graph *g, const Norms *n, ValueId above, ValueId under)
{
    const ValueId zero = emit_scalar(g, DT_FLOAT64, 0), one = emit_scalar(g, DT_FLOAT64, 1),
                  no_w = EMIT(g, Equal, NULL, n->w, zero), no_x = EMIT(g, Equal, NULL, n->x, zero),
                  none = EMIT(g, Or, NULL, no_w, no_x);

    return EMIT(g, Where, NULL, none, one, EMIT(g, Div, NULL, above, under));
}

ValueId formula_correction(const UpdateRule *f, double beta)
{
    Graph *g = f->o->g;
    const ValueId one = emit_scalar(g, DT_FLOAT64, 1),
                  t = EMIT(g, Add, NULL, emit_cast(g, f->o->step, DT_FLOAT64), one);

    return EMIT(g, Sub, NULL, one, EMIT(g, Pow, NULL, emit_scalar(g, DT_FLOAT64, beta), t));
}

ValueId formula_mean(UpdateRule *f, double beta, ValueId x, ValueId y, ValueId z)
{
    ValueId old = F(f, Mul, formula_number(f, beta), x), new = F(f, Mul, formula_number(f, 1 - beta), y);

    return F(f, Add, old, has_value(z) ? F(f, Mul, new, z) : new);
}

static ValueId optimizer_add_state(UpdateRule *f, const char *name, const char *suffix)
{
    if (f->n_state == FORMULA_STATES && !f->o->g->status)
        f->o->g->status = FAIL(E_INTERNAL, "an optimizer of more than %d states", FORMULA_STATES);
    if (f->o->g->status)
        return NO_VALUE;
    f->suffix[f->n_state] = suffix;
    return f->state[f->n_state++] = body_input(f->g, name);
}

ValueId formula_state(UpdateRule *f, const char *suffix) { return optimizer_add_state(f, suffix, suffix); }

ValueId formula_decayed(UpdateRule *f, double weight_decay)
{
    return weight_decay == 0 ? f->grad : F(f, Add, f->grad, F(f, Mul, formula_number(f, weight_decay), f->w));
}

void formula_next(UpdateRule *f, ValueId state, ValueId next)
{
    for (int i = 0; i < f->n_state; i++)
        if (value_eq(f->state[i], state))
            f->next[i] = next;
}

ValueId formula_is_first(UpdateRule *f)
{
    Graph *g = f->o->g;

    return formula_scalar(f, EMIT(g, Equal, NULL, f->o->step, emit_scalar(g, DT_INT64, 0)));
}

/* ---- numbers of a group ---- */

ValueId formula_shared(UpdateRule *f, const char *name)
{
    Graph *g = f->o->g;
    const char *own = f->o->group ? arena_printf(g->arena, "%s.%d", name, f->o->group) : name;
    const Shape scalar = shape_scalar();
    const Tensor *zero = tensor_zeros(g->arena, DT_FLOAT64, &scalar);
    ValueId v;

    if (!own || !zero) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    v = graph_find(g, own);
    if (has_value(v) && value(g, v)->kind != V_STATE && !g->status)
        g->status = FAIL(E_MODEL, "the model has a value of its own named '%s'", own);
    if (has_value(v) || g->status)
        return v;
    v = graph_add_const_nocopy(g, own, zero);
    if (has_value(v))
        value(g, v)->kind = V_STATE;
    return v;
}

void formula_shared_next(UpdateRule *f, ValueId state, ValueId next)
{
    Graph *g = f->o->g;
    bool given = g->status != ST_OK;

    for (int i = 0; i < g->n_update; i++)
        given |= value_eq(g->update[i].state, state);
    if (!given)
        graph_add_update(g, state, has_value(f->o->ok) ? EMIT(g, Where, NULL, f->o->ok, next, state) : next);
}

/* Adds state PARAM.ema: e' = decay e + (1 - decay) w', and e' = w' in the first step. */
static void average(UpdateRule *f, double decay)
{
    Graph *g = f->o->g;
    const ValueId e = formula_state(f, EMA_SUFFIX),
                  first = EMIT(g, Equal, NULL, f->o->step, emit_scalar(g, DT_INT64, 0)),
                  zero = emit_scalar(g, DT_FLOAT64, 0),
                  keep = EMIT(g, Where, NULL, first, zero, emit_scalar(g, DT_FLOAT64, decay)),
                  take = EMIT(g, Sub, NULL, emit_scalar(g, DT_FLOAT64, 1), keep);
    const ValueId old = F(f, Mul, formula_scalar(f, keep), e);

    formula_next(f, e, F(f, Add, old, F(f, Mul, formula_scalar(f, take), f->next[0])));
}

/* Orders the formula's inputs like those of an Update, and keeps each state as it is if the update does not happen. */
static void optimizer_finish(UpdateRule *f)
{
    Graph *g = f->g;
    const ValueId ok = has_value(f->o->ok) ? formula_scalar(f, f->o->ok) : NO_VALUE;
    int n = 0;

    for (int i = 0; i < f->n_state && !g->status; i++) {
        g->input[n++] = f->state[i];
        body_return(g, has_value(ok) ? F(f, Where, ok, f->next[i], f->state[i]) : f->next[i]);
    }
    if (g->status || f->o->g->status)
        return;
    g->input[n++] = f->given_grad;
    for (int i = 0; i < f->n_scalar; i++)
        g->input[n++] = f->scalar[i];
}

bool optimizer_takes_matrix(const OptimizerDef *def, const Value *w)
{
    return def->matrix.takes && def->matrix.takes(w);
}

Status optimizer_formula(UpdateRule *out, const OptimizerStep *o, const OptimizerDef *def, const void *settings,
                         bool matrix)
{
    UpdateRule f = {
        .o = o, .g = graph_create("formula"), .direction = matrix ? def->matrix.direction : NULL, .settings = settings
    };
    Status st;

    if (!f.g)
        return FAIL_NOMEM();
    f.w = optimizer_add_state(&f, "w", NULL);
    f.grad = f.given_grad = body_input(f.g, "grad");
    if (o->clip > 0 && !matrix) {
        const ValueId above = F(&f, Max, f.grad, formula_number(&f, -o->clip));

        f.grad = F(&f, Min, above, formula_number(&f, o->clip));
    }
    (matrix ? def->matrix.formula : def->formula)(&f, settings);
    if (o->ema > 0)
        average(&f, o->ema);
    optimizer_finish(&f);
    st = o->g->status ? o->g->status : f.g->status;
    if (st)
        graph_free(f.g);
    else
        *out = f;
    return st;
}

/* ---- parameters ---- */

/* Adds state PARAM.suffix: zeros of the parameter's type, and of its layout where `shape` is its own. */
static ValueId emit_state(Graph *g, ValueId param, const char *suffix, const Shape *shape)
{
    const Value *w = value(g, param);
    const char *name = arena_printf(g->arena, "%s.%s", w->name, suffix);
    const Tensor *zero = tensor_zeros(g->arena, w->dtype, shape);
    ValueId v;

    if (!name || !zero) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    v = graph_add_const_nocopy(g, name, zero);
    if (has_value(v)) {
        value(g, v)->kind = V_STATE;
        if (shape_eq(shape, w->shape))
            value(g, v)->layout = w->layout;
    }
    return v;
}

/* ---- directions ---- */

ValueId direction_state(const OptimizerStep *o, ValueId w, const char *suffix, const Shape *shape)
{
    return o->g->status ? NO_VALUE : emit_state(o->g, w, suffix, shape);
}

void direction_next(const OptimizerStep *o, ValueId state, ValueId next)
{
    if (!o->g->status)
        graph_add_update(o->g, state, has_value(o->ok) ? EMIT(o->g, Where, NULL, o->ok, next, state) : next);
}

ValueId direction_mix(const OptimizerStep *o, ValueId x, ValueId y, ValueId by)
{
    const ValueId part = EMIT(o->g, Mul, NULL, by, EMIT(o->g, Sub, NULL, y, x));

    return EMIT(o->g, Add, NULL, x, part);
}

ValueId direction_number(const OptimizerStep *o, double v) { return emit_scalar(o->g, o->type, v); }

/* The tensor that stands for the gradient in the formula. */
static ValueId emit_direction(const UpdateRule *f, ValueId w, ValueId grad)
{
    const OptimizerStep *o = f->o;

    if (!f->direction)
        return grad;
    if (o->clip > 0) {
        const ValueId above = EMIT(o->g, Max, NULL, grad, direction_number(o, -o->clip));

        grad = EMIT(o->g, Min, NULL, above, direction_number(o, o->clip));
    }
    return o->g->status ? NO_VALUE : f->direction(o, f->settings, w, grad);
}

/* ---- nodes ---- */

/* Emits value v of the formula for one parameter; `emitted` maps values of the formula, by id, to those emitted so far.
 */
static ValueId emit_value(const UpdateRule *f, ValueId *emitted, ValueId v)
{
    const Node *n = value(f->g, v)->producer;
    ValueId in[8];

    if (has_value(emitted[v.i]) || f->o->g->status)
        return emitted[v.i];
    assert(!n || n->n_in <= (int)(sizeof in / sizeof *in));
    if (!n)
        return emitted[v.i] = emit_scalar(f->o->g, f->o->type, tensor_float(value(f->g, v)->init, 0));
    for (int i = 0; i < n->n_in; i++)
        in[i] = emit_value(f, emitted, n->in[i]);
    return emitted[v.i] = emit(f->o->g, n->op, NULL, n->n_in, in);
}

/* Emits the norm of x, which may be in pieces; the order of additions is the same. */
static ValueId emit_norm(const UpdateRule *f, ValueId x)
{
    Graph *g = f->o->g;
    const int64_t from = 0, count = g->status ? 0 : shape_numel(value(g, x)->shape);
    ValueId out[2] = { NO_VALUE };

    if (f->o->pieces) {
        x = emit(g, &op_SquareSums, ATTRS(INTS("count", 1, &count), INTS("from", 1, &from)), 1, &x);
        emit_multi(g, &op_NormOfSums, ATTRS(FLOAT("max_norm", 1), INTS("count", 1, &count)), 1, &x, 2, out);
    } else
        emit_multi(g, &op_GlobalNorm, ATTRS(FLOAT("max_norm", 1)), 1, &x, 2, out);
    return emit_cast(g, emit_cast(g, out[0], f->o->type), DT_FLOAT64);
}

/* Emits the parameter's scale (NormScale); `in` are the states and gradient, the first inputs of its Update. */
static ValueId emit_norm_scale(const UpdateRule *f, const ValueId *in)
{
    Graph *g = f->o->g;
    ValueId *emitted = calloc(f->g->n_value, sizeof *emitted), x;
    Norms n;

    if (!emitted) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int k = 0; k < f->n_state; k++)
        emitted[f->state[k].i] = in[k];
    emitted[f->given_grad.i] = in[f->n_state];
    for (int i = 0; i < f->n_scalar; i++)
        emitted[f->scalar[i].i] = f->given[i];
    x = emit_value(f, emitted, f->norm.of);
    free(emitted);
    n.w = emit_norm(f, in[0]);
    n.x = emit_norm(f, x);
    n.count = g->status ? 0 : (double)shape_numel(value(g, in[0])->shape);
    return emit_cast(g, f->norm.scale(g, f->norm.settings, &n), f->o->type);
}

void optimizer_emit(const UpdateRule *f, ValueId w, ValueId grad)
{
    Graph *g = f->o->g;
    ValueId in[FORMULA_STATES + 1 + FORMULA_SCALARS] = { w }, out[FORMULA_STATES];
    int n = 1;

    while (n < f->n_state && !g->status) {
        in[n] = emit_state(g, w, f->suffix[n], value(g, w)->shape);
        n++;
    }
    in[n++] = emit_direction(f, w, grad);
    for (int i = 0; i < f->n_scalar; i++)
        in[n++] = f->given[i];
    if (f->norm.scale)
        in[f->n_state + 1 + f->norm.scalar] = emit_norm_scale(f, in);
    emit_multi(g, &op_Update, ATTRS(GRAPH("formula", f->g)), n, in, f->n_state, out);
    for (int i = 0; i < f->n_state && !g->status; i++)
        graph_add_update(g, in[i], out[i]);
}
