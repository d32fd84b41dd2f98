/* The model of a session with what training has made of it. */

#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/internal.h"
#include "graph/ir/op.h"
#include "passes/model/integer_weights.h"
#include "passes/model/stop_gradient.h"

/* The state's present value in the type that the model gave it, where it lies if it can; NULL unless `wanted`. */
static Status present_value(Tensor **out, Arena *a, const States *states, const State *st, DType dtype, bool wanted)
{
    const void *lent = states_lend(states, st);
    Tensor now = { st->dtype, st->shape, NULL }, *t;

    *out = NULL;
    if (!wanted)
        return states_get(states, st->name, &now);
    now.data = lent ? (void *)lent : arena_alloc(a, tensor_bytes(&now));
    if (!now.data)
        return FAIL_NOMEM();
    if (!lent)
        TRY(states_get(states, st->name, &now));
    t = dtype == st->dtype ? arena_memdup(a, &now, sizeof now) : tensor_create(a, dtype, &st->shape);
    if (!t)
        return FAIL_NOMEM();
    for (int64_t i = 0; dtype != st->dtype && i < tensor_numel(t); i++)
        tensor_set_float(t, i, tensor_float(&now, i));
    *out = t;
    return ST_OK;
}

/* So that training goes on with the same parameters where the export is read again. */
static void mark_trained(Value *v, const State *state)
{
    if (v->kind != V_CONST || !dtype_is_float(v->dtype))
        return;
    if (state)
        v->evidence = state->trainable ? EVIDENCE_TRAINED : EVIDENCE_NONE;
    else if (v->shape->rank)
        v->evidence = EVIDENCE_FIXED;
}

/* The state that stands for a parameter in an export; NULL: none. */
static const State *state_of(const State *param, const Session *s, Arena *a, const char *suffix)
{
    const char *name = param && suffix ? arena_printf(a, "%s.%s", param->name, suffix) : NULL;
    const State *other = name ? states_find(s->states, name) : NULL;

    return other ? other : param;
}

/* Repaired as the one that is trained was.  Patterns of --stop-gradient that only a criterion has values for are none
 * of the model's. */
static Status copy_given(Graph **out, const Session *s, const Graph *given)
{
    ParameterOptions parameters = s->base.parameters;
    BuildOptions own = s->base.build;
    const char **stop;
    Graph *g;
    Status st;

    TRY(plan_copy(&g, given, s->base.memory.plan_memory));
    stop = ARENA_NEW(g->arena, const char *, s->base.parameters.n_stop);
    parameters.stop = stop;
    parameters.n_stop = 0;
    own.parameters = &parameters;
    for (int i = 0; stop && i < s->base.parameters.n_stop; i++)
        if (stop_gradient_names(g, s->base.parameters.stop[i], g->arena))
            stop[parameters.n_stop++] = s->base.parameters.stop[i];
    st = stop ? plan_explain(g, model_repair(g, &own, interp_node, NULL)) : FAIL_NOMEM();
    if (st)
        graph_free(g);
    else
        *out = g;
    return st;
}

Status session_model(Graph **out, Session *s, const Graph *given, const char *suffix)
{
    Graph *g;
    Status st = ST_OK;

    TRY(given ? copy_given(&g, s, given) : graph_clone(&g, s->model));
    for (uint32_t i = 1; i < g->n_value && !st; i++) {
        Value *v = g->value[i];
        const State *state = v->init && dtype_is_float(v->dtype) ? states_find(s->states, v->name) : NULL;
        Tensor *t;

        if (states_count(s->states))
            mark_trained(v, state);
        if (!state || !shape_eq(&state->shape, v->shape))
            continue;
        state = state_of(state, s, g->arena, suffix);
        if (!(st = present_value(&t, g->arena, s->states, state, v->dtype, out != NULL)) && t)
            v->init = t;
    }
    if (!st && out)
        st = integer_weights_write(g);
    if (st || !out)
        graph_free(g);
    else
        *out = g;
    return st;
}
