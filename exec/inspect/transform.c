/* A stage of the pipeline as a graph, and the formats that a graph is written in.  A file appears whole or not at
 * all. */
#include "exec/inspect/transform.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "exec/inspect/links.h"
#include "exec/inspect/picture.h"
#include "exec/inspect/split.h"
#include "exec/run/interp.h"
#include "exec/plan/plan_budget.h"
#include "graph/base/outfile.h"
#include "graph/dot.h"
#include "graph/json.h"
#include "graph/op.h"
#include "graph/print.h"
#include "graph/verify.h"

Status transform_options(TransformBuild *out, const Options *o, BuildMode mode)
{
    BuildOptions *b = &out->build;
    DeviceList list;

    out->build = o->build;
    TRY(options_check(o));
    TRY(options_devices(&list, o));
    TRY(split_decide(b, out->weight, &list));
    TRY(links_decide(b, &out->cost, o->links, &list));
    b->mode = mode;
    b->devices = list.n;
    b->replicas = b->replicas ? b->replicas : list.n;
    out->cuda = list.device[0].cuda;
    return ST_OK;
}

static Status check_step(Graph *g)
{
    FOR_NODES(g, n)
        TRY(node_infer(g, n));
    return graph_verify(g) ? status_prefix(E_MODEL, "the exported step") : ST_OK;
}

/* A step that transform_write wrote, as it is: the file says everything but types and shapes. */
static Status read_step(Graph **out, const Graph *step, const Options *o, const char *until, Report *report)
{
    Problems given = { 0 };
    Graph *g;
    Status st;

    if (until)
        problems_add(&given, "--until");
    for (int i = 0; i < options_count(); i++)
        if (options_given(o, options_at(i).name))
            problems_add(&given, "--%s", options_at(i).name);
    TRY(problems_fail(&given, E_INVALID, "the model is a step that was exported; it is shown as it is, without"));
    TRY(graph_clone(&g, step));
    TRY_TO(fail, st, check_step(g));
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

static Status build(Graph **out, const Graph *model, const Options *o, BuildMode mode, const char *until,
                    Report *report)
{
    PipelineOptions how = { .until = until };
    TransformBuild decided;
    BuildOptions *build = &decided.build;
    Graph *g;
    Status st;

    TRY(transform_options(&decided, o, mode));
    build->backend = decided.cuda ? cuda_target(build->precision, build->tf32)
                                  : cpu_target(build->precision, build->tf32, build->blocks);
    TRY(plan_copy(&g, model, build->plan_memory));
    TRY_TO(fail, st, plan_explain(g, model_repair(g, build, interp_node, report)));
    TRY_TO(fail, st, plan_explain(g, pipeline_run(g, build, interp_node, report, &how)));
    if (report && !until)
        TRY_TO(fail, st, report_graph(report, g, &build->backend));
    *out = g;
    return ST_OK;
fail:
    graph_free(g);
    return st;
}

Status transform_run(Graph **out, const Graph *model, const Options *o, const char *until, Report *report)
{
    BuildMode mode = !o->build.loss ? BUILD_INFER : BUILD_TRAIN;

    if (graph_is_step(model))
        return read_step(out, model, o, until, report);
    return build(out, model, o, mode, until && strcmp(until, STAGE_PLAN) ? until : NULL, report);
}

Status transform_build(Graph **out, const Graph *model, const Options *o, BuildMode mode, Report *report)
{
    TRY(transform_check_model(model));
    return build(out, model, o, mode, NULL, report);
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

Status transform_print(FILE *to, const Graph *g, const Graph *model, const char *format)
{
    TRY(transform_check_format(format));
    if (!strcmp(format, "dot"))
        return graph_dot(to, g, model);
    if (!strcmp(format, "svg"))
        return picture_svg(to, g, model);
    if (!strcmp(format, "html"))
        return picture_html(to, g, model);
    if (!strcmp(format, "json"))
        return graph_json(to, g);
    if (!strcmp(format, "txt"))
        return graph_print(to, g, &(PrintOptions){ .max_elements = 16 });
    return FAIL(E_INVALID, "an ONNX graph is written to a file: give -o FILE.onnx");
}

Status transform_write(const Graph *g, const Graph *model, const OnnxModel *onnx, const char *format, const char *path)
{
    OutFile *file;

    if (!strcmp(format, "onnx"))
        return onnx_export_file(g, &(ExportOptions){ .model = onnx }, path);
    TRY(outfile_open(&file, path));
    return outfile_close(file, transform_print(outfile_stream(file), g, model, format));
}
