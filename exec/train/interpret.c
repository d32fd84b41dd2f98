/* One step of a graph by the interpreter, on the states of a session. */
#include "exec/train/interpret.h"

#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"

/* Puts a state together that may be in pieces, with all processes.  A state that no process has yet has the model's
 * value. */
static Status whole_view(void **data, const Interpretation *how, Arena *a, const Value *v)
{
    Tensor t = { v->dtype, *v->shape, v->init ? v->init->data : NULL };

    if (states_find(how->states, v->name)) {
        if (!(t.data = arena_alloc(a, tensor_bytes(&t))))
            return FAIL_NOMEM();
        TRY(states_get(how->states, v->name, &t));
    }
    *data = t.data;
    return ST_OK;
}

/* Where the interpreter reads a state: in place on the CPU, else a copy in `a`. */
static Status state_view(void **data, const Interpretation *how, Arena *a, const Value *v)
{
    Device *d = how->devices->device[v->device];
    size_t bytes = layout_bytes(v->dtype, v->layout, v->shape);
    void *storage;

    if (how->in_pieces)
        return whole_view(data, how, a, v);
    TRY(states_storage(&storage, how->states, v));
    *data = storage;
    if (!device_runtime(d))
        return ST_OK;
    if (!(*data = arena_alloc(a, bytes)))
        return FAIL_NOMEM();
    return memory_read(d, *data, storage, bytes);
}

static Status set_values(const Interpretation *how, Arena *a, const Graph *g, const Tensor **values, Tensor *header,
                         const NamedTensor *in, int n_in)
{
    int *place = ARENA_NEW(a, int, g->n_input);

    if (!place)
        return FAIL_NOMEM();
    TRY(program_find_inputs(place, g, in, n_in));
    for (int i = 0; i < g->n_input; i++)
        values[g->input[i].i] = &in[place[i]].tensor;
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];

        if (v->kind != V_STATE)
            continue;
        header[i] = (Tensor){ v->dtype, *v->shape, NULL };
        TRY(state_view(&header[i].data, how, a, v));
        values[i] = &header[i];
    }
    return ST_OK;
}

Status interpret_step(Arena **arena, NamedTensor *out, const Graph *g, const Interpretation *how, const NamedTensor *in,
                      int n_in)
{
    MemoryBudget *b = plan_budget(how->memory);
    const Tensor **values;
    Tensor *header;

    arena_free(*arena);
    *arena = b ? arena_create_within(b) : NULL;
    memory_budget_free(b); /* the arena holds it */
    if (!*arena || !(values = ARENA_NEW(*arena, const Tensor *, g->n_value)) ||
        !(header = ARENA_NEW(*arena, Tensor, g->n_value)))
        return FAIL_NOMEM();
    TRY(set_values(how, *arena, g, values, header, in, n_in));
    TRY(memory_budget_explain(b, interp_run(*arena, g, values)));
    for (int i = 0; i < g->n_output; i++)
        out[i] = (NamedTensor){ g->output[i].name, *values[g->output[i].value.i] };
    return ST_OK;
}
