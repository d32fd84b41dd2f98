#include "tests/passes/step.h"

#include <math.h>

#include "exec/run/interp.h"
#include "tests/harness/test.h"

Status step_pass(Graph *g, const Pass *pass, const BuildOptions *opt)
{
    PassCtx ctx = { .opt = opt, .scratch = arena_create() };
    Status st;

    if (!ctx.scratch)
        return FAIL_NOMEM();
    st = pass->run(g, &ctx);
    arena_free(ctx.scratch);
    return st ? st : g->status;
}

Status step_open(Step *s, Graph *g)
{
    *s = (Step){ .g = g, .arena = arena_create() };
    if (!s->arena || !(s->values = ARENA_NEW(s->arena, const Tensor *, g->n_value)) ||
        !(s->state = ARENA_NEW(s->arena, const Tensor *, g->n_value)))
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++)
        s->state[i] = g->value[i]->kind == V_STATE ? g->value[i]->init : NULL;
    return ST_OK;
}

void step_close(Step *s)
{
    arena_free(s->arena);
    graph_free(s->g);
}

Tensor *step_floats(Step *s, const Shape *shape, const double *v)
{
    Tensor *t = tensor_create(s->arena, DT_FLOAT64, shape);

    for (int64_t i = 0; t && i < tensor_numel(t); i++)
        tensor_set_float(t, i, v[i]);
    return t;
}

Tensor *step_ints(Step *s, const Shape *shape, const long long *v)
{
    Tensor *t = tensor_create(s->arena, DT_INT64, shape);

    for (int64_t i = 0; t && i < tensor_numel(t); i++)
        tensor_set_int(t, i, v[i]);
    return t;
}

void step_give(Step *s, const char *input, const Tensor *t)
{
    ValueId v = graph_find(s->g, input);

    if (has_value(v))
        s->state[v.i] = t;
    else
        TEST_FAIL("the graph has no input '%s'", input);
}

Status step_run(Step *s)
{
    const Tensor **next = ARENA_NEW(s->arena, const Tensor *, s->g->n_update);

    if (!next)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < s->g->n_value; i++)
        s->values[i] = s->state[i];
    TRY(interp_run(s->arena, s->g, s->values));
    for (int i = 0; i < s->g->n_update; i++)
        next[i] = s->values[s->g->update[i].next.i];
    for (int i = 0; i < s->g->n_update; i++)
        s->state[s->g->update[i].state.i] = next[i];
    return ST_OK;
}

const Tensor *step_output(const Step *s, const char *name)
{
    ValueId v = graph_output(s->g, name);

    return has_value(v) ? s->values[v.i] : NULL;
}

const Tensor *step_state(const Step *s, const char *name)
{
    ValueId v = graph_find(s->g, name);

    return has_value(v) ? s->state[v.i] : NULL;
}

void step_check(const char *what, const Tensor *found, const double *expected, int n)
{
    double scale = 0;

    if (!found || tensor_numel(found) != n) {
        TEST_FAIL("%s: %lld elements, expected %d", what, (long long)(found ? tensor_numel(found) : -1), n);
        return;
    }
    for (int i = 0; i < n; i++)
        scale = fmax(scale, fabs(expected[i]));
    for (int i = 0; i < n; i++)
        if (!(fabs(tensor_float(found, i) - expected[i]) <= 1e-12 * scale)) {
            TEST_FAIL("%s: element %d is %.17g, expected %.17g", what, i, tensor_float(found, i), expected[i]);
            return;
        }
}
