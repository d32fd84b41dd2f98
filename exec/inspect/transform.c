/* Builds the graph of a stage of the pipeline, and writes it in any format.  A file appears whole or not at all. */
#include "exec/inspect/transform.h"

#include <string.h>
#include <sys/stat.h>

#include "exec/inspect/any_batch.h"
#include "exec/inspect/links.h"
#include "exec/inspect/picture.h"
#include "exec/inspect/replica_weights.h"
#include "exec/inspect/transform_build.h"
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/options_groups.h"
#include "graph/base/outfile.h"
#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "graph/ir/verify.h"
#include "graph/text/print.h"
#include "graph/text/write_dot.h"
#include "graph/text/write_json.h"
#include "passes/batch_axis.h"

Status transform_options(TransformBuild *out, const Options *o, BuildMode mode)
{
    BuildParts *b = &out->parts;
    DeviceList list;

    build_parts_copy(b, &o->build);
    TRY(options_check(o));
    TRY(options_devices(&list, o));
    TRY(split_decide(&b->replicas, out->weight, &list));
    TRY(links_decide(&b->collectives, &out->cost, o->links, &list));
    b->build.mode = mode;
    b->replicas.devices = list.n;
    b->replicas.replicas = b->replicas.replicas ? b->replicas.replicas : list.n;
    out->cuda = list.device[0].cuda;
    return ST_OK;
}

/* Copies a step that transform_write wrote and infers its types and shapes, which the file lacks.  Refuses `until` and
 * options: the step is shown as it is. */
static Status read_step(Graph **out, const Graph *step, const Options *o, const char *until, Report *report)
{
    PROBLEMS(given);
    Graph *g;
    Status st;

    if (until)
        problems_add(&given, "--until");
    for (int i = 0; i < options_count(); i++)
        if (options_given(o, options_at(i).name))
            problems_add(&given, "--%s", options_at(i).name);
    TRY(problems_fail(&given, E_INVALID, "the model is a step that was exported; it is shown as it is, without"));
    TRY(graph_clone(&g, step));
    FOR_NODES(g, n)
        TRY_TO(fail, st, node_infer(g, n));
    if ((st = graph_verify(g))) {
        st = status_prefix(E_MODEL, "the exported step");
        goto fail;
    }
    if (report)
        TRY_TO(fail, st, report_graph(report, g, &(Target){ 0 }));
    *out = g;
    return ST_OK;
fail:
    graph_free(g);
    return st;
}

Status transform_check_model(const Graph *model)
{
    if (graph_is_step(model))
        return FAIL(E_MODEL, "the model is a step that graph-transform exported: give the model that it was made from");
    return ST_OK;
}

/* Runs the passes up to `until` (NULL: all) with options that are complete. */
static Status build_decided(Graph **out, const Graph *model, const BuildOptions *build, const char *until,
                            Report *report)
{
    PipelineOptions how = { .until = until };
    Graph *g;
    Status st;

    TRY(plan_copy(&g, model, memory_options(build)->plan_memory));
    TRY_TO(fail, st, plan_explain(g, model_repair(g, build, interp_node, report)));
    TRY_TO(fail, st, plan_explain(g, pipeline_run(g, build, interp_node, report, &how)));
    if (report && !until)
        TRY_TO(fail, st, report_graph(report, g, build_target(build)));
    *out = g;
    return ST_OK;
fail:
    graph_free(g);
    return st;
}

/* Completes the options by looking at their devices, then runs the passes. */
static Status build(Graph **out, const Graph *model, const Options *o, BuildMode mode, const char *until,
                    Report *report)
{
    TransformBuild decided;
    BuildParts *b = &decided.parts;

    TRY(transform_options(&decided, o, mode));
    b->backend.backend = decided.cuda
                             ? cuda_target(b->types.precision, b->backend.tf32)
                             : cpu_target(b->types.precision, b->backend.tf32, b->backend.blocks, b->backend.fuse);
    return build_decided(out, model, &b->build, until, report);
}

Status transform_run(Graph **out, const Graph *model, const Options *o, const char *until, Report *report)
{
    BuildMode mode = !has_loss(&o->build) ? BUILD_INFER : BUILD_TRAIN;

    if (graph_is_step(model))
        return read_step(out, model, o, until, report);
    return build(out, model, o, mode, until && strcmp(until, STAGE_PLAN) ? until : NULL, report);
}

Status transform_build(Graph **out, const Graph *model, const Options *o, BuildMode mode, Report *report)
{
    TRY(transform_check_model(model));
    return build(out, model, o, mode, NULL, report);
}

Status transform_next_token(Graph **out, const Graph *model, const Options *o, int64_t window, const char *until,
                            Report *report)
{
    TransformBuild decided;
    BuildParts *b = &decided.parts;

    TRY(transform_check_model(model));
    TRY(transform_options(&decided, o, BUILD_CONTINUE));
    b->tokens = (TokenOptions){ .window = window, .tokens = 1 };
    b->batch.n_input_shape = 0;
    b->backend.backend = decided.cuda
                             ? cuda_target(b->types.precision, b->backend.tf32)
                             : cpu_target(b->types.precision, b->backend.tf32, b->backend.blocks, b->backend.fuse);
    return build_decided(out, model, &b->build, until, report);
}

/* ---- for other runtimes ---- */

/* Makes learning rates states, which the file has as inputs with defaults. */
static void default_rates(Graph *g, const Options *o)
{
    int kept = 0;

    for (int i = 0; i < g->n_input; i++) {
        Value *v = value(g, g->input[i]);
        int k = 0;

        while (k <= o->n_group && strcmp(v->name, k ? o->group[k - 1].rate_name : IN_LR))
            k++;
        if (k > o->n_group) {
            g->input[kept++] = g->input[i];
            continue;
        }
        v->init = value(g, emit_scalar(g, v->dtype, options_group_rate(o, k, 0, NULL)))->init;
        v->kind = V_STATE;
    }
    g->n_input = kept;
}

bool transform_one_size(const Graph *model, const BuildOptions *build)
{
    const BatchOptions *b = batch_options(build);
    bool given = b->batch > 0;

    for (int i = 0; i < b->n_input_shape; i++) {
        const Shape *s = &b->input_shape[i].shape;
        const int axis = data_batch_axis(model, build, b->input_shape[i].name);

        given |= axis_of_rank(axis, s->rank) >= 0 && s->dim[axis_of_rank(axis, s->rank)] > 0;
    }
    return given;
}

/* A BuildAtBatch. */
static Status build_step(Graph **out, const Graph *model, const BuildParts *parts, const void *user, Report *report)
{
    (void)user;
    return build_decided(out, model, &parts->build, NULL, report);
}

Status transform_standard(Graph **out, const Graph *model, const Options *o, Report *report)
{
    TransformBuild decided;
    BuildOptions *b = &decided.parts.build;
    Graph *g;

    if (!has_loss(&o->build))
        return FAIL(E_INVALID, "--standard writes a training step: give --loss");
    TRY(transform_check_model(model));
    TRY(transform_options(&decided, o, BUILD_TRAIN));
    decided.parts.step.standard = true;
    decided.parts.backend.backend = (Target){ 0 };
    if (replica_count(b) > 1)
        return FAIL(E_INVALID, "--standard writes the step of one replica, found %d", replica_count(b));
    if (transform_one_size(model, b))
        TRY(build_decided(&g, model, b, NULL, report));
    else
        TRY(any_batch(&g, build_step, model, &decided.parts, NULL, find_batch_dim(model, b).symbol, report));
    default_rates(g, o);
    if (!g->status) {
        *out = g;
        return ST_OK;
    }
    graph_free(g);
    return FAIL_NOMEM();
}

Status transform_write_standard(const Graph *g, const OnnxModel *onnx, const char *path)
{
    ExportOptions how = { .model = onnx, .plain = true, .defaults = true, .opset = STANDARD_OPSET };

    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i] && g->value[i]->dtype == DT_BFLOAT16)
            how.opset = BFLOAT16_OPSET;
    return onnx_export_file(g, &how, path);
}

/* ---- formats ---- */

static const char *const formats[] = { "txt", "dot", "svg", "html", "json", "onnx" };
enum { N_FORMATS = sizeof formats / sizeof *formats };

const char *transform_format(const char *path)
{
    const char *dot = strrchr(path, '.');
    struct stat s;

    for (int i = 0; dot && i < N_FORMATS; i++)
        if (!strcmp(dot + 1, formats[i]))
            return formats[i];
    return !stat(path, &s) && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode) ? "txt" : NULL;
}

Status transform_check_format(const char *format)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (!strcmp(format, formats[i]))
            return ST_OK;
    return FAIL(E_INVALID, "format '%s': expected txt, dot, svg, html, json or onnx", format);
}

Status transform_print(FILE *to, const Graph *g, const Graph *model, const Report *r, const char *format)
{
    bool partitioned = false;

    TRY(transform_check_format(format));
    FOR_NODES(g, n)
        partitioned |= (n->op->flags & OPF_COLLECTIVE) != 0;
    if (!strcmp(format, "dot"))
        return partitioned ? picture_dot(to, g, model) : graph_dot(to, g, model);
    if (!strcmp(format, "svg"))
        return picture_svg(to, g, r);
    if (!strcmp(format, "html"))
        return picture_html(to, g, r);
    if (!strcmp(format, "json"))
        return graph_json(to, g);
    if (!strcmp(format, "txt"))
        return graph_print(to, g, &(PrintOptions){ .max_elements = 16 });
    return FAIL(E_INVALID, "an ONNX graph is written to a file: give -o FILE.onnx");
}

Status transform_write(const Graph *g, const Graph *model, const Report *r, const OnnxModel *onnx, const char *format,
                       const char *path)
{
    OutFile *file;

    if (!strcmp(format, "onnx"))
        return onnx_export_file(g, &(ExportOptions){ .model = onnx }, path);
    TRY(outfile_open(&file, path));
    return outfile_close(file, transform_print(outfile_stream(file), g, model, r, format));
}
