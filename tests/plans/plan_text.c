/* The text of a plan (tests/plans/plan_text.h). */
#include "tests/plans/plan_text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/inspect/dry_run.h"
#include "exec/inspect/simulate.h"
#include "exec/inspect/step_times.h"
#include "exec/inspect/summary.h"
#include "exec/inspect/transform.h"
#include "exec/inspect/transform_build.h"
#include "exec/inspect/verify.h"
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/attach.h"
#include "graph/ir/data_shapes.h"
#include "graph/ir/op.h"
#include "graph/ir/verify.h"
#include "graph/text/parse.h"
#include "passes/batch_axis.h"
#include "passes/model/inference.h"
#include "passes/options/batch.h"
#include "passes/options/inputs.h"
#include "passes/options/update.h"
#include "tests/passes/frozen_network.h"
#include "tests/passes/random_networks.h"
#include "tests/plans/graph_text.h"

/* The flags of a plan that are no options of dpexec. */
typedef struct {
    const char *until, *picture, *gradient_of, *with_respect_to, *summary, *simulate, *sizes, *reach, *window;
    bool verify, dry_run, standard, parameters, training_info, exported;
    BuildMode mode[8];
    int n_mode;
} Shown;

typedef struct {
    FILE *to;
    PlanFigures *figures;
    const char *path;
    Options *o;
    Shown shown;
    Graph *model;
    OnnxModel *onnx;
    Arena *a;
} Plan;

static const char *const modes[] = {
    [BUILD_INFER] = "infer", [BUILD_PREDICT] = "predict", [BUILD_CONTINUE] = "continue",
    [BUILD_EVAL] = "eval",   [BUILD_TRAIN] = "train",     [BUILD_ACCUMULATE] = "accumulate",
    [BUILD_APPLY] = "apply", [BUILD_FINISH] = "finish",
};
enum { N_MODES = sizeof modes / sizeof *modes };

/* ---- flags ---- */

static int read_numbers(double out[MAX_RANK], const char *text)
{
    int n = 0;

    for (char *end; n < MAX_RANK && *text; text = *end ? end + 1 : end)
        out[n++] = strtod(text, &end);
    return n;
}

static Status set_target_shape(Options *o, const char *text)
{
    double number[MAX_RANK];
    Shape s = shape_scalar();

    s.rank = read_numbers(number, text);
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = (int64_t)number[i];
    return options_set_target_shape(o, &s);
}

static Status set_class_weights(Plan *p, const char *text)
{
    double number[MAX_RANK];
    const int64_t n = read_numbers(number, text);
    const Shape s = shape_of(1, &n);
    Tensor *t = tensor_create(p->a, DT_FLOAT32, &s);

    for (int64_t i = 0; i < n; i++)
        tensor_set_float(t, i, number[i]);
    return options_set_class_weights(p->o, t);
}

static Status set_mode(Shown *shown, const char *name)
{
    for (int i = 0; i < N_MODES; i++)
        if (!strcmp(name, modes[i])) {
            shown->mode[shown->n_mode++] = (BuildMode)i;
            return ST_OK;
        }
    return FAIL(E_INTERNAL, "there is no mode '%s'", name);
}

/* Takes a flag that has a text: the place for it; NULL: it has none. */
static const char **text_flag(Shown *s, const char *name)
{
    const struct {
        const char *name;
        const char **to;
    } flag[] = { { "until", &s->until },
                 { "picture", &s->picture },
                 { "gradient-of", &s->gradient_of },
                 { "with-respect-to", &s->with_respect_to },
                 { "summary", &s->summary },
                 { "simulate", &s->simulate },
                 { "sizes", &s->sizes },
                 { "reach", &s->reach },
                 { "window", &s->window } };

    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (!strcmp(name, flag[i].name))
            return flag[i].to;
    return NULL;
}

static bool *switch_flag(Shown *s, const char *name)
{
    const struct {
        const char *name;
        bool *to;
    } flag[] = { { "dry-run", &s->dry_run },
                 { "verify", &s->verify },
                 { "standard", &s->standard },
                 { "parameters", &s->parameters },
                 { "training-info", &s->training_info },
                 { "export", &s->exported } };

    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (!strcmp(name, flag[i].name))
            return flag[i].to;
    return NULL;
}

static Status set_flag(Plan *p, const PlanFlag *f)
{
    const char **text = text_flag(&p->shown, f->name);
    bool *on = switch_flag(&p->shown, f->name);

    fprintf(p->to, "--%s%s%s\n", f->name, f->value ? " " : "", f->value ? f->value : "");
    if (text)
        *text = f->value;
    else if (on && (on != &p->shown.parameters || !f->value))
        *on = true;
    else if (!strcmp(f->name, "mode"))
        return set_mode(&p->shown, f->value);
    else if (!strcmp(f->name, "target-shape"))
        return set_target_shape(p->o, f->value);
    else if (!strcmp(f->name, "class-weights"))
        return set_class_weights(p, f->value);
    else
        return options_set(p->o, f->name, f->value ? f->value : "true");
    return ST_OK;
}

/* ---- models ---- */

/* "chain:17": a random network that was exported for 1, 2 or 4 samples; "part:17": a part of one, for 1, 2, 4 or with
 * an open batch. */
static Status make_network(Plan *p)
{
    static const int64_t sizes[] = { 1, 2, 4, -1 };
    const bool chain = p->path[0] == 'c';
    const int number = atoi(strchr(p->path, ':') + 1);
    const int64_t batch = sizes[chain ? number % 3 : number % 4];
    const FileBatch file = batch < 0 ? FILE_OPEN : batch == 1 ? FILE_ONE : FILE_SEVERAL;
    char *open = chain ? random_network((uint32_t)number, file) : part_network(number / 4, file), *text = NULL;
    Status st = open ? frozen_network(&text, open, batch < 0 ? 2 : batch) : FAIL(E_INTERNAL, "there is no %s", p->path);

    if (!st)
        st = graph_parse(&p->model, text, strlen(text));
    if (!st && batch < 0)
        random_network_batch(p->model, -1);
    free(open);
    free(text);
    return st;
}

/* The graph behind "--- before" in a file of tests/passes/golden, as a file of ONNX would have it: its states are
 * constants. */
static Status read_golden(Plan *p)
{
    FILE *f = fopen(p->path, "r");
    char *text = NULL, *from, *to;
    size_t cap = 0;
    Status st = f && getdelim(&text, &cap, '\0', f) > 0 ? ST_OK : FAIL(E_IO, "%s cannot be read", p->path);

    from = st ? NULL : strstr(text, "--- before\n");
    if (!st && !from)
        st = FAIL(E_INTERNAL, "%s: expected a line '--- before'", p->path);
    if (!st) {
        from = strchr(from, '\n') + 1;
        to = strstr(from, "\n---");
        st = graph_parse(&p->model, from, to ? (size_t)(to + 1 - from) : strlen(from));
    }
    for (uint32_t i = 1; !st && i < p->model->n_value; i++) {
        Value *v = p->model->value[i];

        if (v->kind == V_STATE)
            v->kind = V_CONST;
        v->trainable = false;
    }
    if (!st)
        p->model->n_update = 0;
    if (f)
        fclose(f);
    free(text);
    return st;
}

/* Gives the open sizes of inputs but the batch's this length. */
static void close_sizes(Plan *p, int64_t size)
{
    for (int i = 0; i < p->model->n_input; i++) {
        Value *v = value(p->model, p->model->input[i]);
        const int batch = data_batch_axis(p->model, &p->o->build, v->name);
        Shape s = *v->shape;

        for (int k = 0; k < s.rank; k++)
            if (s.dim[k] < 0 && k != batch)
                s.dim[k] = size;
        value_set_shape(p->model, v, &s);
    }
}

static Status read_model(Plan *p)
{
    Graph *attached = NULL;

    if (strstr(p->path, ".txt"))
        return read_golden(p);
    if (!strstr(p->path, ".onnx"))
        return make_network(p);
    TRY(plan_import(&p->model, &p->onnx, p->path, NULL, follows_file(&p->o->build) ? interp_any : interp_node, NULL,
                    &p->o->build));
    TRY(attach_graphs(&attached, p->model, p->onnx, p->o, NULL));
    if (attached) {
        graph_free(p->model);
        p->model = attached;
    }
    if (p->shown.sizes)
        close_sizes(p, atoi(p->shown.sizes));
    return ST_OK;
}

/* ---- sections ---- */

static void section(Plan *p, const char *name, const char *of) { fprintf(p->to, "== %s %s\n", name, of); }

/* Prints the model as the model passes leave it. */
static Status show_model(Plan *p)
{
    Report *report = report_create();
    Graph *g = NULL;
    Status st;

    section(p, "model", "");
    st = report ? graph_clone(&g, p->model) : FAIL_NOMEM();
    st = st ? st : model_repair(g, &p->o->build, interp_node, report);
    st = st ? st : graph_verify(g);
    if (!st)
        st = graph_text_print(p->to, g, true);
    graph_free(g);
    report_free(report);
    return st;
}

/* Prints the report without what differs from run to run. */
static Status show_report(Plan *p, Report *r)
{
    r->n_stage = 0;
    for (int i = 0; i < r->n_note; i++)
        p->figures->warnings += note_is_warning(&r->note[i]);
    TRY(report_print_json(r, p->to));
    return report_print(r, p->to);
}

static Status show_graph(Plan *p, Graph *g, Report *report, const char *name)
{
    p->figures->graphs++;
    for (int d = 0; d < report->n_load; d++) {
        p->figures->nodes += report->load[d].nodes;
        p->figures->flops += report->load[d].flops;
        p->figures->peak += report->load[d].peak_bytes;
    }
    p->figures->collectives += report->collectives;
    section(p, "report", name);
    TRY(show_report(p, report));
    section(p, "graph", name);
    TRY(graph_verify(g));
    if (p->shown.picture)
        return transform_print(p->to, g, p->model, report, p->shown.picture);
    TRY(graph_text_print(p->to, g, false));
    if (p->shown.until || !all_shapes_known(g))
        return ST_OK;
    section(p, "memory", name);
    return memory_text_print(p->to, g, p->a);
}

static Status show_mode(Plan *p, BuildMode mode)
{
    Report *report = report_create();
    Graph *g = NULL;
    Status st = ST_OK;

    if (!report)
        return FAIL_NOMEM();
    if (p->shown.standard)
        st = transform_standard(&g, p->model, p->o, report);
    else if (p->shown.window)
        st = transform_next_token(&g, p->model, p->o, atoi(p->shown.window), p->shown.until, report);
    else if (p->shown.until)
        st = transform_run(&g, p->model, p->o, p->shown.until, report);
    else
        st = transform_build(&g, p->model, p->o, mode, report);
    if (!st && p->o->links)
        st = step_times(report, g, p->model, p->o);
    if (!st)
        st = show_graph(p, g, report, modes[mode]);
    graph_free(g);
    report_free(report);
    return st;
}

/* Sets how far the replicas' parts of an input reach, "x:1:3,2" along its axis 1. */
static Status set_reach(Plan *p, const char *text)
{
    InputOptions *inputs = ARENA_NEW(p->a, InputOptions, 1);
    InputReach *reach = ARENA_NEW(p->a, InputReach, 1);
    int64_t *size = ARENA_NEW(p->a, int64_t, MAX_RANK);
    const char *axis = strchr(text, ':');
    double number[MAX_RANK];
    int n;

    if (!inputs || !reach || !size || !axis)
        return FAIL(E_INTERNAL, "reach: expected NAME:AXIS:SIZES");
    n = read_numbers(number, strchr(axis + 1, ':') + 1);
    for (int i = 0; i < n; i++)
        size[i] = (int64_t)number[i];
    *reach = (InputReach){ arena_printf(p->a, "%.*s", (int)(axis - text), text), atoi(axis + 1), size };
    *inputs = *input_options(&p->o->build);
    inputs->reach = reach;
    inputs->n_reach = 1;
    p->o->build.inputs = inputs;
    return ST_OK;
}

static Status show_modes(Plan *p)
{
    Shown *s = &p->shown;

    if (!s->n_mode && !has_loss(&p->o->build))
        s->mode[s->n_mode++] = BUILD_INFER;
    else if (!s->n_mode && p->o->accumulate == 1)
        s->mode[s->n_mode++] = BUILD_TRAIN;
    else if (!s->n_mode) {
        s->mode[s->n_mode++] = BUILD_ACCUMULATE;
        s->mode[s->n_mode++] = update_options(&p->o->build)->turns ? BUILD_FINISH : BUILD_APPLY;
    }
    for (int i = 0; i < s->n_mode; i++)
        TRY(show_mode(p, s->mode[i]));
    return ST_OK;
}

/* The plug-in is not asked. */
static Status show_program(Plan *p)
{
    section(p, "program", "");
    setenv("DPEXEC_CUDA_PLUGIN", "/no/plug-in", 1);
    return dry_run(p->to, p->model, p->o, NULL, NULL);
}

static Status show_gradients(Plan *p)
{
    Graph *g;
    Status st;

    section(p, "graph", "gradients");
    TRY(transform_gradients(&g, p->model, p->o, p->shown.gradient_of, p->shown.with_respect_to));
    st = graph_text_print(p->to, g, false);
    graph_free(g);
    return st;
}

static Status show_summary(Plan *p)
{
    BatchOptions batch = *batch_options(&p->o->build);
    Options one = *p->o;
    Graph *g;
    Status st;

    section(p, "summary", "");
    batch.batch = batch.batch ? batch.batch : 1;
    one.build.batch = &batch;
    TRY(transform_run(&g, p->model, &one, "find-parameters", NULL));
    st = summary_print(p->to, g, atoi(p->shown.summary), false);
    st = st ? st : summary_print(p->to, g, atoi(p->shown.summary), true);
    graph_free(g);
    return st;
}

static Status show_parameters(Plan *p)
{
    Report *report = report_create();
    Graph *g = NULL;
    Status st = transform_run(&g, p->model, p->o, "find-parameters", report);

    section(p, "parameters", "");
    st = st ? st : report_print_parameters(report, p->to, false);
    st = st ? st : report_print_parameters(report, p->to, true);
    graph_free(g);
    report_free(report);
    return st;
}

static Status show_simulation(Plan *p)
{
    Cluster *cluster = ARENA_NEW(p->a, Cluster, 1);
    Simulation s = { .row = NULL };
    Status st = cluster_read(cluster, p->shown.simulate);

    section(p, "simulation", "");
    st = st ? st : simulate(&s, p->model, p->o, cluster, NULL, false);
    if (!st) {
        simulation_print(&s, p->to);
        simulation_print_json(&s, p->to);
    }
    free(s.row);
    return st;
}

/* Prints what is compared where the partitioned and the whole graph are run, and whether they agree. */
static Status show_verification(Plan *p)
{
    TransformBuild *decided = ARENA_NEW(p->a, TransformBuild, 1);
    Verify v = { 0 };

    section(p, "verification", "");
    TRY(transform_options(decided, p->o, has_loss(&p->o->build) ? BUILD_TRAIN : BUILD_INFER));
    TRY(verify_partition(&v, p->a, p->model, &decided->parts.build, interp_node, 0));
    fprintf(p->to, "%d values: %s\n", v.n_row, v.times <= VERIFY_TIMES ? "agree" : "differ");
    return ST_OK;
}

/* Writes a file for inference, reads it again and prints it. */
static Status show_file(Plan *p)
{
    char path[] = "/tmp/plans_XXXXXX";
    const int fd = mkstemp(path);
    OnnxModel *onnx = NULL;
    Graph *g = NULL, *model = NULL;
    Status st = fd < 0 ? FAIL(E_IO, "%s cannot be made", path) : ST_OK;

    section(p, "file", "");
    close(fd);
    if (!st && p->shown.training_info)
        st = transform_write_training(p->model, NULL, p->onnx, p->o, p->shown.standard, path);
    else if (!st && !(st = graph_clone(&model, p->model)) &&
             !(st = model_repair(model, &p->o->build, interp_node, NULL)) && !(st = inference_make(model)))
        st = onnx_export_file(model, &(ExportOptions){ .model = p->onnx }, path);
    graph_free(model);
    if (!st)
        st = onnx_import_file(&g, &onnx, path,
                              &(ImportOptions){ .eval = interp_any, .training = p->shown.training_info });
    if (!st)
        st = graph_text_print(p->to, g, true);
    unlink(path);
    graph_free(g);
    onnx_model_free(onnx);
    if (st && !strncmp(status_message(), path, strlen(path))) /* its name is another each time */
        return FAIL(st, "FILE%s", status_message() + strlen(path));
    return st;
}

static Status show(Plan *p)
{
    const Shown *s = &p->shown;

    if (s->dry_run)
        return show_program(p);
    if (s->gradient_of)
        return show_gradients(p);
    if (s->summary)
        return show_summary(p);
    if (s->parameters)
        return show_parameters(p);
    if (s->simulate)
        return show_simulation(p);
    if (s->training_info || s->exported)
        return show_file(p);
    TRY(graph_is_step(p->model) ? ST_OK : show_model(p));
    if (s->reach)
        TRY(set_reach(p, s->reach));
    return s->verify ? show_verification(p) : show_modes(p);
}

Status plan_text(FILE *to, PlanFigures *figures, const char *model, const PlanCase *c)
{
    Plan p = { .to = to, .figures = figures, .path = model, .o = options_create(), .a = arena_create() };
    Status st = p.o && p.a ? ST_OK : FAIL_NOMEM();

    *figures = (PlanFigures){ 0 };
    section(&p, "flags", "");
    for (int i = 0; i < c->n_flag && !st; i++)
        st = set_flag(&p, &c->flag[i]);
    st = st ? st : read_model(&p);
    st = st ? st : show(&p);
    if (st) {
        section(&p, "refused", "");
        fprintf(to, "%s: %s\n", status_name(st), status_message());
    }
    graph_free(p.model);
    onnx_model_free(p.onnx);
    options_free(p.o);
    arena_free(p.a);
    return st == E_NOMEM || st == E_INTERNAL ? FAIL(st, "%s", status_message()) : ST_OK;
}
