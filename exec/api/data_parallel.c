/* The one-call form: scatter, run forward and gather. */
#include <stdio.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "passes/batch_axis.h"

static const char *name_of(const dpx_model *m, const dpx_tensor *inputs, int i)
{
    return inputs[i].name ? inputs[i].name : i < m->graph->n_input ? value(m->graph, m->graph->input[i])->name : "";
}

static const Value *input_of(const dpx_model *m, const char *name)
{
    const ValueId v = graph_find(m->graph, name);

    return has_value(v) ? value(m->graph, v) : NULL;
}

/* Input i, which is not split: tensors of its sequence may not be, but where it has no axes. */
static Status check_unsplit(const dpx_model *m, const dpx_tensor *inputs, int n, int i, int dim, int64_t size)
{
    const Value *v = input_of(m, name_of(m, inputs, i));

    for (int k = 0; k < n && v && inputs[i].rank; k++) {
        const Value *x = input_of(m, name_of(m, inputs, k));
        const int axis = axis_of_rank(dim, inputs[k].rank);

        if (x && same_sequence(v, x) && axis >= 0 && inputs[k].dim[axis] == size)
            return FAIL(E_SHAPE,
                        "dpx_data_parallel: input '%s' has another size along axis %d than '%s' of the same "
                        "sequence, which has %lld",
                        v->name, dim, x->name, (long long)size);
    }
    return ST_OK;
}

/* Inputs whose size along `dim` is the first's are split there; others go to every device in full. */
static Status split_inputs(Options *o, const dpx_model *m, const dpx_tensor *inputs, int n, int dim)
{
    int first;

    for (int i = 0; i < n; i++)
        if (inputs[i].rank < 0 || inputs[i].rank > MAX_RANK)
            return FAIL(E_INVALID, "dpx_data_parallel: input '%s': a rank of %d is not valid", name_of(m, inputs, i),
                        inputs[i].rank);
    if ((first = axis_of_rank(dim, inputs[0].rank)) < 0)
        return FAIL(E_INVALID, "dpx_data_parallel: input '%s' has rank %d, and no axis %d", name_of(m, inputs, 0),
                    inputs[0].rank, dim);
    for (int i = 0; i < n; i++) {
        const int axis = axis_of_rank(dim, inputs[i].rank);
        const char *text;

        if (axis < 0 || inputs[i].dim[axis] != inputs[0].dim[first]) {
            TRY(check_unsplit(m, inputs, n, i, dim, inputs[0].dim[first]));
            continue;
        }
        if (!(text = arena_printf(o->arena, "%s:%d", name_of(m, inputs, i), axis)))
            return FAIL_NOMEM();
        TRY(options_set(o, "batch-input", text));
    }
    return ST_OK;
}

static Status make_options(Options **out, const dpx_model *m, const dpx_tensor *inputs, int n, const char *devices,
                           int output_device, int dim)
{
    Options *o = options_create();
    char number[16];
    Status st = o ? ST_OK : FAIL_NOMEM();

    snprintf(number, sizeof number, "%d", output_device);
    if (!st && devices)
        st = options_set(o, "devices", devices);
    if (!st)
        st = options_set(o, "output-device", number);
    if (!st)
        st = model_give_attached(o, m);
    if (!st)
        st = split_inputs(o, m, inputs, n, dim);
    if (st) {
        options_free(o);
        return st;
    }
    *out = o;
    return ST_OK;
}

/* Was the trainer made for such a call? */
static bool serves(const dpx_trainer *t, const dpx_model *m, const Options *o)
{
    static const char *const names[] = { "devices", "output-device", "batch-input" };
    bool same = t && t->model == m;

    for (size_t i = 0; same && i < sizeof names / sizeof *names; i++)
        same = !strcmp(options_get(t->options, names[i]), options_get(o, names[i]));
    return same;
}

dpx_status dpx_data_parallel(dpx_trainer **keep, const dpx_model *model, const dpx_tensor *inputs, int n,
                             const char *devices, int output_device, int dim, dpx_tensor *outputs, int n_outputs)
{
    dpx_trainer *made;
    dpx_status st;
    Options *o;

    NEED(keep, "keep");
    NEED(model, "model");
    NEED(inputs, "inputs");
    if (n < 1)
        return (dpx_status)FAIL(E_INVALID, "dpx_data_parallel: %d inputs, expected 1 or more", n);
    if ((st = (dpx_status)make_options(&o, model, inputs, n, devices, output_device, dim)))
        return st;
    if (!serves(*keep, model, o)) {
        if (!(st = dpx_trainer_create(&made, model, (const dpx_options *)o, NULL, NULL))) {
            dpx_trainer_free(*keep);
            *keep = made;
        }
    }
    options_free(o);
    return st ? st : dpx_run(*keep, inputs, n, outputs, n_outputs);
}
