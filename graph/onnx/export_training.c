/* The export of a model with training_info (training.c reads it).  The algorithm is a whole step with its own forward
 * pass, which may differ from the model's in training.  It shares inputs and initializers with the model. */
#include <stdlib.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/onnx/export.h"
#include "graph/ops/cast.gen.h"

/* Gives the step's inputs, states and constants that the model declares the model's names, and reserves all other names
 * of the model. */
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

/* Adds outputs of first values, cast to the types that their tensors are declared with. */
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
                "--training-info: an initialization computes '%s', which no step updates: it is a constant of the "
                "step, and the file would hold this run's value",
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

/* Copies the opset and domains, which are those that all graphs of the file need so far. */
static void copy_domains(Exporter *to, const Exporter *from)
{
    to->opset = from->opset;
    to->domain = from->domain;
    to->n_domain = from->n_domain;
    to->cap_domain = from->cap_domain;
}

/* Copies the graph that computes first values in the file that was read.  Its outputs get the names and types of the
 * step's states.  NULL: there is none. */
static Status make_initial(Graph **out, const OnnxModel *from, const Exporter *step, const Graph *model)
{
    Graph *g;
    Status st;

    *out = NULL;
    if (!from || !from->n_first)
        return ST_OK;
    if (!from->initial)
        return FAIL(E_UNSUPPORTED, "--training-info: the initialization cannot be written: %s", from->not_initial);
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

/* ---- the model ---- */

/* Fills the model's message.  `*made` gets the graph of `initial`, which owns data that the message refers to. */
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
    copy_domains(step, model);
    TRY(export_graph(step, info->algorithm));
    TRY(bind_updates(step, info));
    copy_domains(model, step);
    TRY(make_initial(made, model->opt->model, step, model->g));
    if ((initial->g = *made)) {
        copy_domains(initial, model);
        if (!(info->initialization = NEW_MESSAGE(initial, Onnx__GraphProto, onnx__graph_proto)))
            return FAIL_NOMEM();
        TRY(export_begin(initial));
        TRY(export_graph(initial, info->initialization));
        TRY(bind_first(initial, info, model->opt->model, step));
        copy_domains(model, initial);
    }
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
    problems_free(&of_model.problems);
    problems_free(&of_step.problems);
    problems_free(&of_first.problems);
    graph_free(first);
    arena_free(a);
    return st;
}
