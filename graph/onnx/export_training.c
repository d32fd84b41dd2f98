/* A model with its training_info (training.c reads it): the algorithm is the whole of a step, its own forward pass too,
 * for in training that may be another one.  With the model it shares inputs and initializers. */
#include "graph/onnx/export.h"

#include <stdlib.h>

/* The step takes no name that the model has, but for what is declared there: that is the same. */
static Status share(Exporter *step, const Exporter *model)
{
    bool *elsewhere = export_alloc(step, sizeof *elsewhere, step->g->n_value);

    step->names = model->names;
    for (size_t i = 0; i < step->names.cap; i++)
        step->names.slot[i].value.i = UINT32_MAX - 1; /* no value of the step */
    for (uint32_t i = 1; elsewhere && i < step->g->n_value; i++) {
        const Value *v = step->g->value[i];
        const ValueId same = v->kind == V_TEMP ? NO_VALUE : graph_find(model->g, v->name);
        const Value *of = has_value(same) ? value(model->g, same) : NULL;

        if (!of || of->kind == V_TEMP || (of->kind == V_INPUT) != (v->kind == V_INPUT))
            continue;
        step->name[i] = model->name[same.i];
        elsewhere[i] = true;
    }
    step->elsewhere = elsewhere;
    return elsewhere ? ST_OK : FAIL_NOMEM();
}

static Status bind_updates(Exporter *x, Onnx__TrainingInfoProto *info)
{
    const Graph *g = x->g;

    if (!(info->update_binding = export_alloc(x, sizeof *info->update_binding, (size_t)g->n_update)))
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_update; i++) {
        Onnx__StringStringEntryProto *e = NEW_MESSAGE(x, Onnx__StringStringEntryProto, onnx__string_string_entry_proto);

        if (!e)
            return FAIL_NOMEM();
        e->key = x->name[g->update[i].state.i];
        e->value = x->name[g->update[i].next.i];
        info->update_binding[info->n_update_binding++] = e;
    }
    return ST_OK;
}

static Status build(Exporter *model, Exporter *step, Onnx__ModelProto *m)
{
    Onnx__TrainingInfoProto *info = NEW_MESSAGE(model, Onnx__TrainingInfoProto, onnx__training_info_proto);

    m->graph = NEW_MESSAGE(model, Onnx__GraphProto, onnx__graph_proto);
    m->training_info = export_alloc(model, sizeof *m->training_info, 1);
    if (!info || !m->graph || !m->training_info ||
        !(info->algorithm = NEW_MESSAGE(model, Onnx__GraphProto, onnx__graph_proto)))
        return FAIL_NOMEM();
    TRY(export_begin(model));
    TRY(export_begin(step));
    TRY(export_graph(model, m->graph));
    TRY(share(step, model));
    step->opset = model->opset;
    step->domain = model->domain;
    step->n_domain = model->n_domain;
    step->cap_domain = model->cap_domain;
    TRY(export_graph(step, info->algorithm));
    TRY(bind_updates(step, info));
    model->opset = step->opset;
    model->domain = step->domain;
    model->n_domain = step->n_domain;
    m->training_info[m->n_training_info++] = info;
    return export_rest(model, m);
}

Status onnx_export_training(const Graph *model, const Graph *step, const ExportOptions *opt, const char *path)
{
    Arena *a = arena_create();
    Exporter of_model = { .g = model, .opt = opt, .arena = a }, of_step = { .g = step, .opt = opt, .arena = a };
    Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
    Status st;

    if (!a)
        return FAIL_NOMEM();
    of_model.names.arena = a;
    of_model.opset = opt->model && opt->model->opset > OPSET_AT_LEAST ? opt->model->opset : OPSET_AT_LEAST;
    if (!(st = build(&of_model, &of_step, &m)))
        st = message_write(&m.base, path);
    free(of_model.problems.text);
    free(of_step.problems.text);
    arena_free(a);
    return st;
}
