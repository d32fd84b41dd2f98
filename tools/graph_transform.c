/* graph-transform: shows what a training run would execute, stage by stage, and checks it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/inspect/operators.h"
#include "exec/inspect/simulate.h"
#include "exec/inspect/step_times.h"
#include "exec/inspect/summary.h"
#include "exec/inspect/transform.h"
#include "exec/inspect/transform_build.h"
#include "exec/inspect/verify.h"
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/attach.h"
#include "passes/options/recipes.h"
#include "passes/options/step.h"
#include "tools/args.h"
#include "tools/feed/feed.h"
#include "tools/help.h"
#include "tools/standard_streams.h"

static const Flag flags[] = {
    { "until", "PASS", "stop after this pass; NAME:2: after the second pass of that name [all passes]" },
    { "o", "FILE",
      "write the graph to FILE.txt, .onnx or .json, or as a picture to .svg, .html or .dot; devices and pipes get text "
      "[text to standard output]" },
    { "report", NULL,
      "print devices, phases, replicas, split inputs, notes, collectives and trained tensors; then the passes with "
      "nodes, seconds and memory" },
    { "parameters", "[=FILE]",
      "print which tensors are trained, and why; =FILE: train those that FILE names, as in a run (names, one per line, "
      "or a .safetensors)" },
    { "summary", NULL,
      "print the layers of the model with their outputs, parameters and FLOPs, for a batch of 1 or --batch-size" },
    { "depth", "N", "with --summary: components of a layer's name to show; \"layer1.0\" has two [all]" },
    { "json", NULL, "the report, or the table of --parameters, --summary or --simulate, as JSON" },
    { "verify", NULL, "run the partitioned and the unpartitioned graph on a random batch in float64 and compare" },
    { "simulate", "CLUSTER.json",
      "print the time, memory and bytes per link of a step on the devices of a cluster (docs/reference/simulate.md)" },
    { "rates", "TRACE.json", "with --simulate: take the device's rates from a --trace of the step on one device" },
    { "expand", NULL, "with --simulate: plan every device, at most 64, instead of one of each kind" },
    { "training-info", NULL, "with -o FILE.onnx: write the model with this training as its training_info" },
    { "standard", NULL,
      "with --loss and -o FILE.onnx: write the step of one replica in operators of ai.onnx alone, for other runtimes; "
      "for batches of any size, or of --batch-size (docs/reference/standard.md)" },
    { "gradient-of", "OUTPUT",
      "with --with-respect-to and -o FILE.onnx: write the model and gradients of this output, in operators of ai.onnx "
      "alone (docs/reference/standard.md)" },
    { "with-respect-to", "NAME,...", "inputs or parameters to differentiate by" },
    { "next-token", "WINDOW",
      "the step of dpexec generate: predicts the next token of a text of at most WINDOW tokens; states hold the keys "
      "and values of the tokens before it" },
    { "class-weights", "FILE.npy", "weight of each class in the loss" },
    { "list-passes", NULL, "list the passes in order" },
    { "list-operators", NULL, "list the ONNX operators that models may use, as JSON with --json" },
    { "version", NULL, "print the version" },
    { NULL, NULL, NULL },
};

static const Command command = { "",
                                 "MODEL.onnx [options]",
                                 "Shows the graph of a training run (with --loss) or of inference at any stage.",
                                 flags,
                                 ALL_OPTIONS,
                                 0,
                                 1,
                                 NULL };

enum { VERIFY_ROWS = 12 };

static void list_passes(void)
{
    for (int i = 0; i < pipeline_len; i++)
        printf("%-20s%s\n", pipeline[i]->name, pipeline[i]->summary);
    printf("%-20s%s\n", STAGE_PLAN, "give every value its place in memory");
}

/* E_INVALID lists the flags that cannot be combined with another, and says `why`. */
static Status check_alone(const Args *a, const char *const *others, const char *why)
{
    PROBLEMS(wrong);

    for (; *others; others++)
        if (args_has(a, *others))
            problems_add(&wrong, "%s%s", (*others)[1] ? "--" : "-", *others);
    return problems_fail(&wrong, E_INVALID, "%s: it does not go with", why);
}

/* Does the same, and requires -o FILE.onnx. */
static Status check_standard(const Args *a, const char *flag, const char *const *others, const char *why)
{
    const char *path = args_value(a, "o"), *format = path ? transform_format(path) : NULL;

    TRY(check_alone(a, others, why));
    if (!format || strcmp(format, "onnx"))
        return FAIL(E_INVALID, "--%s: expected -o FILE.onnx%s%s", flag, path ? ", found -o " : "", path ? path : "");
    return ST_OK;
}

static Status write_gradients(const Graph *model, const OnnxModel *onnx, const Args *a, const Options *o)
{
    static const char *const others[] = { "until",         "report",   "json", "verify", "parameters",
                                          "training-info", "standard", "loss", NULL };
    char *by;
    Graph *g;
    Status st;

    TRY(check_standard(a, "gradient-of", others, "--gradient-of writes a model and gradients"));
    if (!args_has(a, "with-respect-to"))
        return FAIL(E_INVALID, "--gradient-of: give --with-respect-to NAME,...");
    TRY(args_list(&by, a, "with-respect-to"));
    st = transform_gradients(&g, model, o, args_value(a, "gradient-of"), by);
    free(by);
    TRY(st);
    st = transform_write_standard(g, onnx, args_value(a, "o"));
    graph_free(g);
    return st;
}

static Status graph_transform_check_flags(const Args *a, const Options *o)
{
    static const char *const shown[] = { "o", "until", "report", "json", NULL }, *const graphs[] = { "o", "until",
                                                                                                     "report", "verify",
                                                                                                     NULL };
    static const char *const not_standard[] = { "until", "verify", "parameters", NULL };
    static const char *const others[] = { "o", "until", "report", "verify", "parameters", NULL }, *const simulates[] = {
        "rates", "expand", NULL
    };

    if (args_has(a, "simulate"))
        return check_alone(a, others, "--simulate prints a table and shows no graph");
    TRY(check_alone(a, simulates, "these belong to --simulate CLUSTER.json and"));
    if (args_has(a, "standard"))
        return check_standard(a, "standard", not_standard, "--standard writes a whole step");
    if (args_has(a, "with-respect-to") && !args_has(a, "gradient-of"))
        return FAIL(E_INVALID, "--with-respect-to: give --gradient-of OUTPUT");
    if (args_has(a, "parameters"))
        return check_alone(a, graphs, "--parameters prints a table and shows no graph (=FILE names what is trained)");
    if (args_has(a, "summary"))
        return check_alone(a, graphs, "--summary prints a table and shows no graph");
    if (args_has(a, "depth"))
        return FAIL(E_INVALID, "--depth N goes with --summary");
    if (!args_has(a, "verify"))
        return ST_OK;
    TRY(check_alone(a, shown, "--verify compares and shows no graph"));
    return options_check(o);
}

/* Options by which several replicas compute something else than one, unless they have their defaults. */
static const char *const inexact_options[] = { "bn", "bn-group", "bn-eps", "loss-scaling", "reduce-dtype" };

/* The error of graphs that differ: E_UNSUPPORTED where an option intends that. */
static Status fail_verify(const Verify *v, const Options *o)
{
    PROBLEMS(meant);

    for (size_t k = 0; k < sizeof inexact_options / sizeof *inexact_options; k++)
        for (int i = 0; i < options_count(); i++)
            if (!strcmp(options_at(i).name, inexact_options[k]) &&
                strcmp(options_get(o, inexact_options[k]), options_at(i).fallback))
                problems_add(&meant, "--%s %s", inexact_options[k], options_get(o, inexact_options[k]));
    TRY(problems_fail(
        &meant, E_UNSUPPORTED,
        "'%s' of the partitioned graph differs by %.3g from what one replica computes, as these options intend",
        v->row[0].name, v->row[0].difference));
    return FAIL(E_INTERNAL,
                "'%s' of the partitioned graph differs by %.3g, %.3g times the rounding error (at most %.0f times)",
                v->row[0].name, v->row[0].difference, v->times, VERIFY_TIMES);
}

static Status verify(const Graph *model, const Options *o)
{
    Arena *a;
    TransformBuild decided;
    Verify v = { 0 };
    Status st;

    if (graph_is_step(model))
        return FAIL(E_INVALID, "--verify partitions a model; this one is a step that was exported");
    a = arena_create();
    st = a ? transform_options(&decided, o, recipe_options(&o->build)->loss ? BUILD_TRAIN : BUILD_INFER) : FAIL_NOMEM();
    if (!st)
        st = verify_partition(&v, a, model, &decided.parts.build, interp_node, step_options(&o->build)->seed);
    if (!st)
        st = verify_print(&v, stdout, VERIFY_ROWS);
    if (!st && !(v.times <= VERIFY_TIMES))
        st = fail_verify(&v, o);
    for (int i = 0; !st && i < v.n_row; i++)
        if (v.row[i].not_a_number)
            st = FAIL(E_INTERNAL, "'%s' holds NaN in both graphs, which proves nothing: choose another --seed",
                      v.row[i].name);
    if (!st)
        puts("agrees: the partitioned graph computes what one replica does");
    arena_free(a);
    return st;
}

/* Runs the passes up to find-parameters with every open dimension taken as `size`, except the batch where `o` gives it;
 * 0: as the options say. */
static Status find_parameters(Report *report, const Graph *model, const Options *o, int64_t size)
{
    Graph *sized, *g = NULL;
    Status st;

    TRY(graph_clone_lending(&sized, model));
    for (int i = 0; i < sized->n_input; i++) {
        Shape s = *value(sized, sized->input[i])->shape;

        for (int d = 0; d < s.rank; d++)
            s.dim[d] = size && s.dim[d] < 0 ? size : s.dim[d];
        value_set_shape(sized, value(sized, sized->input[i]), &s);
    }
    st = transform_run(&g, sized, o, "find-parameters", report);
    graph_free(g);
    graph_free(sized);
    return st;
}

static Status show_summary(const Graph *model, const Args *a, const Options *o)
{
    BatchOptions batch = *batch_options(&o->build);
    Options one = *o;
    int64_t depth;
    Graph *g;
    Status st;

    TRY(args_int(&depth, a, "depth", 0, 1, 1000));
    batch.batch = batch.batch ? batch.batch : 1;
    one.build.batch = &batch;
    TRY(transform_check_model(model));
    TRY(transform_run(&g, model, &one, "find-parameters", NULL));
    st = summary_print(stdout, g, (int)depth, args_has(a, "json"));
    graph_free(g);
    return st;
}

/* E_SHAPE with the inputs whose dimensions are open; `st` if there are none. */
static Status no_size_fits(Status st, const Graph *model)
{
    PROBLEMS(open);

    for (int i = 0; i < model->n_input; i++) {
        const Value *v = value(model, model->input[i]);
        char text[SHAPE_TEXT];

        if (!shape_known(v->shape))
            problems_add(&open, "'%s' %s", v->name, shape_text(v->shape, text));
    }
    TRY(problems_fail(
        &open, E_SHAPE,
        "--parameters: none of the sizes tried for open dimensions fits the model: give --input-shape NAME=DIMS for"));
    return st;
}

/* Which tensors are trained does not depend on sizes, but shapes must be consistent.  So where dimensions are open,
 * several sizes are tried for all of them together, such as 1680 for windows of 3, 5 or 7. */
static Status show_parameters(const Graph *model, const Args *a, const Options *o)
{
    static const int64_t sizes[] = { 1, 64, 256, 576, 1024, 1680, 4096, 16384 };
    const size_t n = sizeof sizes / sizeof *sizes;
    BatchOptions batch = *batch_options(&o->build);
    Options one = *o;
    Report *report = report_create();
    Status st = report ? transform_check_model(model) : FAIL_NOMEM();
    bool open = false;

    for (int i = 0; i < model->n_input; i++)
        open |= !shape_known(value(model, model->input[i])->shape);
    if (!st && (st = find_parameters(report, model, o, 0)) == E_SHAPE && open) {
        batch.batch = 1;
        one.build.batch = &batch;
        for (size_t i = 0; i < 2 * n && (st == E_SHAPE || st == E_UNSUPPORTED); i++) {
            report_free(report);
            report = report_create();
            st = report ? find_parameters(report, model, i < n ? o : &one, sizes[i % n]) : FAIL_NOMEM();
        }
        if (st == E_SHAPE || st == E_UNSUPPORTED)
            st = no_size_fits(st, model);
    }
    if (!st)
        st = report_print_parameters(report, stdout, args_has(a, "json"));
    report_free(report);
    return st;
}

static Status show(const Graph *model, const OnnxModel *onnx, const Args *a, const Options *o)
{
    const char *path = args_value(a, "o"), *format = path ? transform_format(path) : "txt";
    bool wants_report = args_has(a, "report") || args_has(a, "json");
    const bool standard = args_has(a, "standard"), next = args_has(a, "next-token"),
               draws = format && (!strcmp(format, "svg") || !strcmp(format, "html"));
    Report *report = report_create();
    Graph *g = NULL;
    int64_t window;
    Status st = report ? args_int(&window, a, "next-token", 0, 2, 1 << 24) : FAIL_NOMEM();

    if (!st && !format)
        st = FAIL(E_INVALID, "-o %s: expected a name that ends in .txt, .onnx, .json, .svg, .html or .dot", path);
    if (!st)
        st = standard ? transform_standard(&g, model, o, report)
             : next   ? transform_next_token(&g, model, o, window, args_value(a, "until"), report)
                      : transform_run(&g, model, o, args_value(a, "until"), report);
    if (!st && (wants_report || draws) && !standard && !next && !args_value(a, "until"))
        st = step_times(report, g, model, o);
    if (!st && standard)
        st = transform_write_standard(g, onnx, path);
    else if (!st && path)
        st = transform_write(g, model, report, onnx, format, path);
    else if (!st && !wants_report)
        st = transform_print(stdout, g, model, report, format);
    if (!st && wants_report)
        st = args_has(a, "json") ? report_print_json(report, stdout) : report_print(report, stdout);
    graph_free(g);
    report_free(report);
    return st;
}

/* --training-info.  `given` is the model without the training_info of its file, where that is followed, else NULL. */
static Status write_training(const Graph *model, const OnnxModel *onnx, const Args *a, const Options *o)
{
    static const char *const others[] = { "until", "report", "json", "verify", "parameters", "simulate", NULL };
    const char *path = args_value(a, "o"), *format = path ? transform_format(path) : NULL;
    OnnxModel *given_onnx = NULL;
    OperatorList own = { NULL, 0 };
    Graph *given = NULL;
    Arena *arena;
    Status st;

    TRY(check_alone(a, others, "--training-info writes a model"));
    if (!format || strcmp(format, "onnx"))
        return FAIL(E_INVALID, "--training-info: give -o FILE.onnx");
    st = (arena = arena_create()) ? ST_OK : FAIL_NOMEM();
    if (!st && follows_file(&o->build) && !(st = options_operators(&own, arena, o)))
        st = plan_import_given(&given, &given_onnx, a->positional[0], NULL, interp_any, &own, &o->build);
    if (!st)
        st = transform_write_training(model, given, onnx, o, args_has(a, "standard"), path);
    graph_free(given);
    onnx_model_free(given_onnx);
    arena_free(arena);
    return st;
}

static Status show_simulation(const Graph *model, const Args *a, const Options *o)
{
    Cluster *cluster = malloc(sizeof *cluster);
    Simulation s = { .row = NULL };
    Status st = cluster ? cluster_read(cluster, args_value(a, "simulate")) : FAIL_NOMEM();

    if (!st)
        st = simulate(&s, model, o, cluster, args_value(a, "rates"), args_has(a, "expand"));
    if (!st && args_has(a, "json"))
        simulation_print_json(&s, stdout);
    else if (!st)
        simulation_print(&s, stdout);
    free(s.row);
    free(cluster);
    return st;
}

/* Reads the model with what the options attach to it; `own`: the operators that they bring. */
static Status read_attached(Graph **out, OnnxModel **onnx, const char *path, const Options *o, const OperatorList *own)
{
    Graph *model, *attached = NULL;
    Status st;

    TRY(plan_import(&model, onnx, path, NULL, follows_file(&o->build) ? interp_any : interp_node, own, &o->build));
    st = attaches_graphs(o) ? ST_OK : plan_check_members(*onnx, &o->build);
    st = st ? st : attach_graphs(&attached, model, *onnx, o, own);
    if (st || attached)
        graph_free(model);
    if (st)
        onnx_model_free(*onnx);
    *out = attached ? attached : model;
    return st;
}

static Status graph_transform_run(const Args *a)
{
    const Options *o = (const Options *)a->options;
    OperatorList own = { NULL, 0 };
    OnnxModel *onnx = NULL;
    Graph *model = NULL;
    Arena *arena;
    Status st;

    if (!a->n_positional)
        return FAIL(E_INVALID, "expected graph-transform %s", command.synopsis);
    TRY(graph_transform_check_flags(a, o));
    TRY(feed_class_weights(a, NULL, NULL));
    if (!(arena = arena_create()))
        return FAIL_NOMEM();
    st = options_operators(&own, arena, o);
    if (!st)
        st = read_attached(&model, &onnx, a->positional[0], o, &own);
    arena_free(arena);
    TRY(st);
    if (args_has(a, "gradient-of"))
        st = write_gradients(model, onnx, a, o);
    else if (args_has(a, "training-info"))
        st = write_training(model, onnx, a, o);
    else if (args_has(a, "parameters"))
        st = show_parameters(model, a, o);
    else if (args_has(a, "summary"))
        st = show_summary(model, a, o);
    else if (args_has(a, "simulate"))
        st = show_simulation(model, a, o);
    else
        st = args_has(a, "verify") ? verify(model, o) : show(model, onnx, a, o);
    graph_free(model);
    onnx_model_free(onnx);
    return st;
}

static int finish(const Args *a, Status st) { return st ? args_failed(a, "graph-transform", st) : EXIT_DONE; }

int main(int argc, char **argv)
{
    int code = EXIT_DONE;
    Status st;
    Args a;

    tool_begin("graph-transform", argv);
    st = args_parse(&a, &command, argc - 1, argv + 1);
    if (!st && a.help)
        help_print(&a, "graph-transform");
    else if (!st && args_has(&a, "version"))
        printf("graph-transform %s\n", dpx_version());
    else if (!st && args_has(&a, "list-passes"))
        list_passes();
    else if (!st && args_has(&a, "list-operators"))
        code = finish(&a, operators_print(stdout, args_has(&a, "json")));
    else
        code = finish(&a, st ? st : graph_transform_run(&a));
    args_free(&a);
    return tool_end("graph-transform", code);
}
