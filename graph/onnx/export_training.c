/* A model with its training_info (training.c reads it): the algorithm is the whole of a step, its own forward pass too,
 * for in training that may be another one.  With the model it shares inputs and initializers. */
#include "graph/onnx/export.h"
#include "graph/ops/cast.gen.h"

#include <stdlib.h>
#include <string.h>

#include "graph/ir/emit.h"

/* The step takes no name that the model has, but for what is declared there: that is the same. */
static Status export_training_share(Exporter *step, const Exporter *model)
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

/* ---- first values ---- */

/* In the type that the tensor is declared with. */
static Status cast_outputs(Graph *g, const OnnxModel *from, const Exporter *step, const Graph *model)
{
    for (int i = 0; i < from->n_first; i++) {
        const ValueId id = graph_find(step->g, from->first[i].key), first = graph_output(g, from->first[i].value);
        const bool elsewhere = has_value(id) && step->elsewhere[id.i];
        const Value *state = has_value(id) ? value(step->g, id) : NULL;
        const DType t = elsewhere ? value(model, graph_find(model, state->name))->dtype
                        : state   ? state->dtype
                                  : DT_NONE;

        if (!has_value(first))
            return FAIL(E_INTERNAL, "the initialization has no output '%s'", from->first[i].value);
        if (!state || state->kind != V_STATE)
            return FAIL(
                E_UNSUPPORTED,
                "--training-info: '%s' gets its first value by a graph, and is not updated: it is a constant of "
                "the step, of which this value would be written",
                from->first[i].key);
        graph_add_output(g, from->first[i].key, EMIT(g, Cast, ATTRS(INT("to", t)), first));
    }
    return g->status;
}

static Status bind_first(Exporter *x, Onnx__TrainingInfoProto *info, const OnnxModel *from, const Exporter *step)
{
    const size_t n = (size_t)from->n_first;

    if (!(info->initialization_binding = export_alloc(x, sizeof *info->initialization_binding, n)))
        return FAIL_NOMEM();
    for (int i = 0; i < from->n_first; i++) {
        Onnx__StringStringEntryProto *e = NEW_MESSAGE(x, Onnx__StringStringEntryProto, onnx__string_string_entry_proto);

        if (!e)
            return FAIL_NOMEM();
        e->key = step->name[graph_find(step->g, from->first[i].key).i];
        e->value = x->g->output[i].name ? export_text(x, x->g->output[i].name) : NULL;
        info->initialization_binding[info->n_initialization_binding++] = e;
    }
    return x->no_memory ? FAIL_NOMEM() : ST_OK;
}

/* Opsets that other graphs of the file need, too. */
static void take_domains(Exporter *to, const Exporter *from)
{
    to->opset = from->opset;
    to->domain = from->domain;
    to->n_domain = from->n_domain;
    to->cap_domain = from->cap_domain;
}

/* What gives first values in the file that was read, for states as they are in the step; outputs are called as these
 * are.  NULL: nothing. */
static Status make_initial(Graph **out, const OnnxModel *from, const Exporter *step, const Graph *model)
{
    Graph *g;
    Status st;

    *out = NULL;
    if (!from || !from->n_first)
        return ST_OK;
    if (!from->initial)
        return FAIL(E_UNSUPPORTED, "--training-info: what gives first values cannot be written: %s", from->not_initial);
    TRY(graph_clone(&g, from->initial));
    if ((st = cast_outputs(g, from, step, model))) {
        graph_free(g);
        return st;
    }
    memmove(g->output, g->output + (g->n_output - from->n_first), (size_t)from->n_first * sizeof *g->output);
    g->n_output = from->n_first;
    *out = g;
    return ST_OK;
}

static Status export_initial(Exporter *x, Graph **made, Exporter *model, const Exporter *step,
                             Onnx__TrainingInfoProto *info)
{
    TRY(make_initial(made, model->opt->model, step, model->g));
    if (!(x->g = *made))
        return ST_OK;
    take_domains(x, model);
    if (!(info->initialization = NEW_MESSAGE(x, Onnx__GraphProto, onnx__graph_proto)))
        return FAIL_NOMEM();
    TRY(export_begin(x));
    TRY(export_graph(x, info->initialization));
    TRY(bind_first(x, info, model->opt->model, step));
    take_domains(model, x);
    return ST_OK;
}

/* ---- the model ---- */

/* `made`: the graph of `initial`, which holds what the message points to. */
static Status export_training_build(Exporter *model, Exporter *step, Exporter *initial, Graph **made,
                                    Onnx__ModelProto *m)
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
    TRY(export_training_share(step, model));
    take_domains(step, model);
    TRY(export_graph(step, info->algorithm));
    TRY(bind_updates(step, info));
    take_domains(model, step);
    TRY(export_initial(initial, made, model, step, info));
    m->training_info[m->n_training_info++] = info;
    return export_rest(model, m);
}

Status onnx_export_training(const Graph *model, const Graph *step, const ExportOptions *opt, const char *path)
{
    Arena *a = arena_create();
    Exporter of_model = { .g = model, .opt = opt, .arena = a }, of_step = { .g = step, .opt = opt, .arena = a };
    Exporter of_first = { .opt = opt, .arena = a, .names.arena = a };
    Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
    Graph *first = NULL;
    Status st;

    if (!a)
        return FAIL_NOMEM();
    of_model.names.arena = a;
    of_model.opset = opt->model && opt->model->opset > OPSET_AT_LEAST ? opt->model->opset : OPSET_AT_LEAST;
    TRY_TO(done, st, export_training_build(&of_model, &of_step, &of_first, &first, &m));
    TRY_TO(done, st, model_write(&m, path, a, opt->most_bytes));
done:
    free(of_model.problems.text);
    free(of_step.problems.text);
    free(of_first.problems.text);
    graph_free(first);
    arena_free(a);
    return st;
}
