/* What optimizers share: states, and updates that are formulas. */
#include "graph/recipes/optimizer.h"

#include "graph/body.h"

ValueId optimizer_state(OptimizerStep *o, const char *suffix)
{
    const Value *w = value(o->g, o->w);
    const char *name = arena_printf(o->g->arena, "%s.%s", w->name, suffix);
    const Tensor *zero = tensor_create(o->g->arena, w->dtype, &w->shape);
    ValueId v;

    if (!name || !zero) {
        graph_fail_nomem(o->g);
        return NO_VALUE;
    }
    v = graph_add_const_nocopy(o->g, name, zero);
    if (has_value(v)) {
        value(o->g, v)->kind = V_STATE;
        value(o->g, v)->layout = w->layout;
    }
    return v;
}

/* ---- formulas ---- */

ValueId formula_node(UpdateRule *f, const OpDef *op, int n, const ValueId *in)
{
    const Node *x = f->g->status ? NULL : graph_add_node(f->g, op, op->name, NULL, n, in, 1, NULL);

    return x && !f->g->status ? x->out[0] : NO_VALUE;
}

ValueId formula_number(UpdateRule *f, double v) { return emit_scalar(f->g, value(f->o->g, f->o->w)->dtype, v); }

ValueId formula_scalar(UpdateRule *f, ValueId v)
{
    Graph *g = f->o->g;

    if (f->n_scalar == FORMULA_SCALARS && !g->status)
        g->status = FAIL(E_INTERNAL, "a formula of more than %d scalars", FORMULA_SCALARS);
    if (g->status)
        return NO_VALUE;
    if (value(g, v)->dtype != DT_BOOL)
        v = emit_cast(g, v, value(g, f->o->w)->dtype);
    f->given[f->n_scalar] = v;
    return f->scalar[f->n_scalar++] = body_input(f->g, "scalar");
}

static ValueId add_state(UpdateRule *f, ValueId kept, const char *name)
{
    if (f->n_state == FORMULA_STATES && !f->o->g->status)
        f->o->g->status = FAIL(E_INTERNAL, "an optimizer of more than %d states", FORMULA_STATES);
    if (f->o->g->status)
        return NO_VALUE;
    f->kept[f->n_state] = kept;
    return f->state[f->n_state++] = body_input(f->g, name);
}

ValueId formula_state(UpdateRule *f, const char *suffix) { return add_state(f, optimizer_state(f->o, suffix), suffix); }

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
    g->input[n++] = f->grad;
    for (int i = 0; i < f->n_scalar; i++)
        g->input[n++] = f->scalar[i];
}

static void emit_formula(UpdateRule *f)
{
    Graph *g = f->o->g;
    ValueId in[FORMULA_STATES + 1 + FORMULA_SCALARS], out[FORMULA_STATES];
    int n = 0;

    for (int i = 0; i < f->n_state; i++)
        in[n++] = f->kept[i];
    in[n++] = f->o->grad;
    for (int i = 0; i < f->n_scalar; i++)
        in[n++] = f->given[i];
    emit_multi(g, &op_Update, ATTRS(GRAPH("formula", f->g)), n, in, f->n_state, out);
    for (int i = 0; i < f->n_state && !g->status; i++)
        graph_add_update(g, f->kept[i], out[i]);
}

void optimizer_emit(OptimizerStep *o, const OptimizerDef *def, const void *settings)
{
    UpdateRule f = { .o = o };

    if (def->emit) {
        def->emit(o, settings);
        return;
    }
    if (!(f.g = graph_create("formula"))) {
        graph_fail_nomem(o->g);
        return;
    }
    f.w = add_state(&f, o->w, "w");
    f.grad = body_input(f.g, "grad");
    def->formula(&f, settings);
    finish(&f);
    if (f.g->status && !o->g->status)
        o->g->status = f.g->status;
    if (!o->g->status)
        emit_formula(&f);
    graph_free(f.g);
}
