/* The states of a session's programs, known before a program is compiled: the logical graph of a mode, with some size
 * in place of those that the model leaves open, has the states that every program of that mode has. */
#include <stdlib.h>
#include <string.h>

#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/internal.h"

/* Behind it passes divide and order the graph; none adds or drops a state. */
#define LAST_PASS "dce:2"

/* Shapes of all inputs: the options', else the model's with `size` for what is open. */
static Status bind_open(InputShape **out, int *n, Arena *a, const Session *s, int64_t size)
{
    const BatchOptions *given = &s->base.batch;
    InputShape *bound = ARENA_NEW(a, InputShape, s->model->n_input + given->n_input_shape);

    if (!bound)
        return FAIL_NOMEM();
    *n = 0;
    for (; *n < given->n_input_shape; ++*n)
        bound[*n] = given->input_shape[*n];
    for (int i = 0; i < s->model->n_input; i++) {
        const Value *v = value(s->model, s->model->input[i]);
        Shape shape = *v->shape;
        bool named = shape.rank < 0;

        for (int k = 0; k < given->n_input_shape; k++)
            named |= !strcmp(given->input_shape[k].name, v->name);
        for (int k = 0; k < shape.rank; k++)
            shape.dim[k] = shape.dim[k] < 0 ? size : shape.dim[k];
        if (!named)
            bound[(*n)++] = (InputShape){ v->name, shape };
    }
    *out = bound;
    return ST_OK;
}

/* The logical graph of the mode, all states of which have a shape. */
static Status build_logical(Graph **out, Session *s, BuildMode mode, int64_t size)
{
    Compiled c = { .mode = mode };
    InputShape *unused = NULL, *bound;
    BuildParts opt;
    Graph *g = NULL;
    Arena *a = arena_create();
    int n;
    Status st = a ? ST_OK : FAIL_NOMEM();

    TRY_TO(done, st, st);
    TRY_TO(done, st, session_build_options(&opt, &unused, s, &c, NULL, 0));
    TRY_TO(done, st, bind_open(&bound, &n, a, s, size));
    opt.batch.input_shape = bound;
    opt.batch.n_input_shape = n;
    TRY_TO(done, st, graph_clone(&g, s->model));
    st = plan_explain(g, pipeline_run(g, &opt.build, interp_node, NULL, &(PipelineOptions){ .until = LAST_PASS }));
    for (uint32_t i = 1; i < g->n_value && !st; i++)
        if (g->value[i]->kind == V_STATE && !shape_known(g->value[i]->shape))
            st = FAIL(E_SHAPE, "state '%s' has no shape before the step's inputs have one", g->value[i]->name);
    if (!st) {
        *out = g;
        g = NULL;
    }
done:
    graph_free(g);
    free(unused);
    arena_free(a);
    return st;
}

/* Adds the graph's states that the session does not have, with the values that they begin with. */
static Status give_states(States *states, const Graph *g)
{
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];

        if (v->kind == V_STATE && !v->transient && !states_find(states, v->name))
            TRY(states_foresee(states, v->name, v->dtype, v->shape, v->init ? v->init->data : NULL, v->trainable));
    }
    return ST_OK;
}

Status session_know_states(Session *s, BuildMode mode)
{
    static const int64_t sizes[] = { 64, 1, 224 }; /* of images and texts; of graphs that broadcast; of larger images */
    Graph *g;
    Status st = E_INTERNAL;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && st && st != E_NOMEM; i++)
        st = build_logical(&g, s, mode, sizes[i]);
    TRY(st);
    st = give_states(s->states, g);
    graph_free(g);
    return st;
}
