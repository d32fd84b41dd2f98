/* What optimizers share: the formula of an update, built once for all parameters of a type, and the nodes that carry
 * it. */
#include "graph/recipes/optimizer.h"

#include "graph/body.h"

/* ---- formulas ---- */

ValueId formula_node(UpdateRule *f, const OpDef *op, int n, const ValueId *in)
{
    const Node *x = f->g->status ? NULL : graph_add_node(f->g, op, op->name, NULL, n, in, 1, NULL);

    return x && !f->g->status ? x->out[0] : NO_VALUE;
}

ValueId formula_number(UpdateRule *f, double v) { return emit_scalar(f->g, f->o->type, v); }

ValueId formula_scalar(UpdateRule *f, ValueId v)
{
    Graph *g = f->o->g;

    if (f->n_scalar == FORMULA_SCALARS && !g->status)
        g->status = FAIL(E_INTERNAL, "a formula of more than %d scalars", FORMULA_SCALARS);
    if (g->status)
        return NO_VALUE;
    if (value(g, v)->dtype != DT_BOOL)
        v = emit_cast(g, v, f->o->type);
    f->given[f->n_scalar] = v;
    return f->scalar[f->n_scalar++] = body_input(f->g, "scalar");
}

ValueId formula_lr64(const UpdateRule *f)
{
    return emit_cast(f->o->g, emit_cast(f->o->g, f->o->lr, f->o->type), DT_FLOAT64);
}

static ValueId add_state(UpdateRule *f, const char *name, const char *suffix)
{
    if (f->n_state == FORMULA_STATES && !f->o->g->status)
        f->o->g->status = FAIL(E_INTERNAL, "an optimizer of more than %d states", FORMULA_STATES);
    if (f->o->g->status)
        return NO_VALUE;
    f->suffix[f->n_state] = suffix;
    return f->state[f->n_state++] = body_input(f->g, name);
}

ValueId formula_state(UpdateRule *f, const char *suffix) { return add_state(f, suffix, suffix); }

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

/* Inputs in the order of an Update's; where the update does not happen each state stays as it is, to the bit. */
static void finish(UpdateRule *f)
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

Status optimizer_formula(UpdateRule *out, const OptimizerStep *o, const OptimizerDef *def, const void *settings)
{
    UpdateRule f = { .o = o, .g = graph_create("formula") };
    Status st;

    if (!f.g)
        return FAIL_NOMEM();
    f.w = add_state(&f, "w", NULL);
    f.grad = f.given_grad = body_input(f.g, "grad");
    if (o->clip > 0) {
        const ValueId above = F(&f, Max, f.grad, formula_number(&f, -o->clip));

        f.grad = F(&f, Min, above, formula_number(&f, o->clip));
    }
    def->formula(&f, settings);
    finish(&f);
    st = o->g->status ? o->g->status : f.g->status;
    if (st)
        graph_free(f.g);
    else
        *out = f;
    return st;
}

/* ---- parameters ---- */

/* State PARAM.suffix, zeros, of the parameter's type, shape and layout. */
static ValueId emit_state(Graph *g, ValueId param, const char *suffix)
{
    const Value *w = value(g, param);
    const char *name = arena_printf(g->arena, "%s.%s", w->name, suffix);
    const Tensor *zero = tensor_zeros(g->arena, w->dtype, w->shape);
    ValueId v;

    if (!name || !zero) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    v = graph_add_const_nocopy(g, name, zero);
    if (has_value(v)) {
        value(g, v)->kind = V_STATE;
        value(g, v)->layout = w->layout;
    }
    return v;
}

void optimizer_emit(const UpdateRule *f, ValueId w, ValueId grad)
{
    Graph *g = f->o->g;
    ValueId in[FORMULA_STATES + 1 + FORMULA_SCALARS] = { w }, out[FORMULA_STATES];
    int n = 1;

    while (n < f->n_state && !g->status) {
        in[n] = emit_state(g, w, f->suffix[n]);
        n++;
    }
    in[n++] = grad;
    for (int i = 0; i < f->n_scalar; i++)
        in[n++] = f->given[i];
    emit_multi(g, &op_Update, ATTRS(GRAPH("formula", f->g)), n, in, f->n_state, out);
    for (int i = 0; i < f->n_state && !g->status; i++)
        graph_add_update(g, in[i], out[i]);
}
