/* Sessions.  Shapes are static in a program, so a batch of another size, or in parts of other lengths, is another
 * program; all programs share the state and one arena per device.  In inference the interpreter computes the nodes
 * whose shapes depend on data, from the outputs of a program of all other nodes. */
#include <stdlib.h>
#include <string.h>

#include "exec/device/device_differences.h"
#include "exec/device/direct.h"
#include "exec/plan/plan_budget.h"
#include "exec/run/interp.h"
#include "exec/train/internal.h"
#include "exec/train/interpret.h"
#include "exec/train/note_level.h"
#include "exec/world/world.h"
#include "graph/ir/data_shapes.h"
#include "graph/ir/op.h"
#include "graph/ir/split_graph.h"
#include "passes/batch_axis.h"
#include "passes/train/class_axis.h"

/* ---- creation ---- */

/* Warns of devices that are slower than others; called by all processes. */
static Status compare_devices(const Session *s, const DeviceList *list)
{
    char text[UNEQUAL_TEXT], line[UNEQUAL_TEXT + 128];

    TRY(device_set_find_unequal(text, &s->devices, list));
    if (!s->log || !*text)
        return ST_OK;
    snprintf(line, sizeof line, "the step waits for the slowest device: %s%s", text,
             s->base.replicas.split == SPLIT_WEIGHTS ? "" : "; --split gives each a part by weight");
    s->log(s->log_user, LINE_WARNING, line);
    return ST_OK;
}

/* Logs the notes that were not logged before. */
static void log_notes(Session *s, const Report *r)
{
    for (int i = 0; i < r->n_note; i++) {
        const NoteKind kind = r->note[i].kind;
        char line[1200];

        if (kind == NOTE_PADDING ? s->padding_logged : s->notes_logged && kind != NOTE_ACCUMULATION)
            continue;
        s->padding_logged |= kind == NOTE_PADDING;
        snprintf(line, sizeof line, "%s: %s", r->note[i].subject, r->note[i].text);
        s->log(s->log_user, note_level(&r->note[i]), line);
    }
}

/* Makes the model as it is trained and exported, and logs the changes. */
static Status repair(Session *s)
{
    Report *r = s->log ? report_create() : NULL;
    Status st = model_repair(s->model, &s->base.build, interp_node, r);

    if (!st && r)
        log_notes(s, r);
    report_free(r);
    return st;
}

Status session_create(Session **out, const Graph *model, const BuildOptions *base, const DeviceList *devices,
                      SessionLog *log, void *user)
{
    Session *s = calloc(1, sizeof *s);
    Status st;

    if (!s)
        return FAIL_NOMEM();
    build_parts_copy(&s->base, base);
    s->most_programs = SESSION_PROGRAMS;
    s->log = log;
    s->log_user = user;
    TRY_TO(fail, st, plan_copy(&s->model, model, memory_options(base)->plan_memory));
    TRY_TO(fail, st, plan_explain(s->model, repair(s)));
    if (!(s->shape = calloc((size_t)model->n_input + 1, sizeof *s->shape)))
        TRY_TO(fail, st, FAIL_NOMEM());
    for (int i = 0; i < model->n_input; i++)
        s->shape[i] = (InputShape){ value(s->model, s->model->input[i])->name, shape_unknown() };
    TRY_TO(fail, st, device_set_open(&s->devices, devices));
    TRY_TO(fail, st, states_create(&s->states, s->devices.device, s->devices.n));
    states_join(s->states, s->devices.world);
    TRY_TO(fail, st, compare_devices(s, devices));
    *out = s;
    return ST_OK;
fail:
    session_free(s);
    return st;
}

static void compiled_free(Compiled *c)
{
    if (!c)
        return;
    program_free(c->program);
    graph_free(c->rest);
    arena_free(c->arena);
    reach_free(&c->reach);
    free(c->kept);
    free(c->place);
    free(c->name);
    free(c->output_place);
    free(c->output);
    free(c);
}

void session_free(Session *s)
{
    if (!s)
        return;
    for (Compiled *c = s->compiled, *next; c; c = next) {
        next = c->next;
        compiled_free(c);
    }
    if (!s->shares_states)
        states_free(s->states);
    device_set_close(&s->devices);
    graph_free(s->model);
    reach_free(&s->reach);
    free(s->shape);
    free(s);
}

/* ---- compiling ---- */

/* The pass after which a model is cut in two: before it, states and their layouts are decided for the whole model. */
#define CUT_AFTER "layout-weights"

/* Runs the passes, and logs a summary and notes for the first program, for the first with micro-batches, and for the
 * first with lengths: later ones repeat them. */
static Status run_passes(Session *s, Graph *g, const BuildOptions *opt, const PipelineOptions *how)
{
    const bool news = !s->notes_logged || (build_mode(opt) == BUILD_ACCUMULATE && !s->accumulation_logged);
    Report *r = s->log && (news || (input_options(opt)->n_reach && !s->padding_logged)) ? report_create() : NULL;
    Status st = pipeline_run(g, opt, interp_node, r, how);

    if (!st && r && !(st = report_graph(r, g, build_target(opt)))) {
        report_summary(s->summary, r);
        if (build_mode(opt) >= BUILD_TRAIN && news)
            s->log(s->log_user, LINE_DETAIL, s->summary);
        log_notes(s, r);
        s->notes_logged = true;
        s->accumulation_logged |= build_mode(opt) == BUILD_ACCUMULATE;
    }
    report_free(r);
    return st;
}

/* Lists the missing inputs of open shape if the passes failed because of a shape: they are why. */
static Status explain_shapes(const Session *s, Status st, BuildMode mode, const NamedTensor *in, int n_in)
{
    PROBLEMS(missing);

    if (st != E_SHAPE || !n_in || mode == BUILD_APPLY)
        return st;
    for (int i = 0; i < s->model->n_input; i++) {
        const Value *v = value(s->model, s->model->input[i]);

        if (!shape_known(v->shape) && s->shape[i].shape.rank < 0 && !named_find(in, n_in, v->name))
            problems_add(&missing, "input '%s' is missing", v->name);
    }
    return missing.n ? problems_fail(&missing, E_INVALID, "a step of this model") : st;
}

/* Are the states in pieces, which the interpreter has to put together? */
static bool in_pieces(const Session *s) { return s->base.collectives.shard == SHARD_PARAMETERS; }

/* Fills in the options of the part that is interpreted: one device and one replica, and the layouts of the states,
 * which programs share. */
static void options_for_interpreter(BuildParts *whole, const Session *s, const BuildOptions *opt)
{
    build_parts_copy(whole, opt);
    whole->replicas.replicas = whole->replicas.devices = 1;
    whole->replicas.device_of_replica = NULL;
    whole->inputs.n_reach = 0;
    whole->backend.backend = (Target){ .layouts = in_pieces(s) ? NULL : build_target(opt)->layouts };
}

static Status state_storage(void **data, void *user, const Value *v) { return states_storage(data, user, v); }

static Status reserve_states(void *user, const Value *const *v, int n) { return states_reserve(user, v, n); }

static Status compile_program(Session *s, Compiled *c, Graph *g)
{
    DeviceSet *d = &s->devices;
    ProgramOptions opt = { .device = d->device,
                           .n_device = d->n,
                           .world = d->world,
                           .first = d->first,
                           .n_local = d->n_local,
                           .arenas = &d->arenas,
                           .state = state_storage,
                           .reserve = reserve_states,
                           .user = s->states,
                           .spin = d->spin,
                           .group = d->group,
                           .ways = s->ways,
                           .log = s->log,
                           .log_user = s->log_user };

    TRY(plan_explain(s->model, program_compile(&c->program, g, &opt)));
    program_set_trace(c->program, s->trace);
    return ST_OK;
}

static Status begin_rest(Session *s, Compiled *c)
{
    for (uint32_t i = 1; i < c->rest->n_value; i++)
        c->rest->value[i]->device = s->devices.first; /* every process computes all of it */
    if (!(c->output = calloc((size_t)c->rest->n_output + 1, sizeof *c->output)))
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < c->rest->n_value; i++) {
        void *data;

        if (c->rest->value[i]->kind == V_STATE && !in_pieces(s))
            TRY(states_storage(&data, s->states, c->rest->value[i]));
    }
    return ST_OK;
}

static void log_rest(const Session *s, const Graph *known, const Graph *rest)
{
    char line[1200];

    if (!s->log || s->interpreted_logged || !rest->n_node)
        return;
    snprintf(line, sizeof line,
             "%s: from here on shapes depend on data: %u nodes run as a program, the %u behind them one by one",
             node_text(rest, rest->node[0]), known ? known->n_node : 0, rest->n_node);
    s->log(s->log_user, LINE_WARNING, line);
}

/* Compiles the nodes of static shape (`known`, which is taken and may be NULL), and readies the rest for the
 * interpreter. */
static Status compile_both(Session *s, Compiled *c, Graph *known, const BuildOptions *opt)
{
    const PipelineOptions behind = { .after = CUT_AFTER };
    BuildParts whole;
    Status st = known ? run_passes(s, known, opt, &behind) : ST_OK;

    options_for_interpreter(&whole, s, opt);
    if (st || (st = run_passes(s, c->rest, &whole.build, &behind))) {
        graph_free(known);
        return st;
    }
    log_rest(s, known, c->rest);
    s->interpreted_logged = true;
    if (known)
        TRY(compile_program(s, c, known));
    return begin_rest(s, c);
}

/* Cuts the model into the nodes of static shape, which are planned, and the rest for the interpreter.  The passes that
 * decide about the whole model, such as its states and their layouts, run before the cut. */
static Status compile_apart(Session *s, Compiled *c, const BuildOptions *opt)
{
    Graph *g, *known;
    Status st;

    if (s->base.outputs.outputs_apart)
        return FAIL(E_UNSUPPORTED, "--output-device each: shapes of the model depend on data, so that one device "
                                   "computes all of it: give --output-device 0");
    TRY(graph_clone(&g, s->model));
    TRY_TO(done, st, pipeline_run(g, opt, interp_node, NULL, &(PipelineOptions){ .until = CUT_AFTER }));
    TRY_TO(done, st, graph_cut(&known, &c->rest, g));
    st = compile_both(s, c, known, opt);
done:
    graph_free(g);
    return st;
}

static Status compile_with(Session *s, Compiled *c, const BuildOptions *opt, const NamedTensor *in, int n_in)
{
    Graph *g;
    Status st;

    TRY(graph_clone(&g, s->model));
    if ((st = explain_shapes(s, plan_explain(g, run_passes(s, g, opt, NULL)), c->mode, in, n_in))) {
        graph_free(g);
        return st;
    }
    if (all_shapes_known(g))
        return compile_program(s, c, g);
    st = c->mode == BUILD_CONTINUE ? fail_dynamic(g, "a step of a text")
         : c->mode < BUILD_EVAL    ? ST_OK
                                   : fail_dynamic(g, "training");
    graph_free(g);
    return st ? st : plan_explain(s->model, compile_apart(s, c, opt));
}

/* ---- the axis of the classes ----
 *
 * Programs may be compiled before any target was seen; once one decides, those that were built with another axis go.
 * The scores' name is lent by a graph that goes with them. */

static void take_class_axis(Session *s, const ClassAxis *found)
{
    Compiled **at = &s->compiled;

    while (found->axis != s->class_axis.axis && *at) {
        Compiled *c = *at;

        if (!c->class_axis.axis || c->class_axis.axis == found->axis) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        compiled_free(c);
        s->forgotten++;
    }
    s->class_axis = *found;
    s->class_axis.output = NULL;
}

/* Decides by the target's shape, if it is given, for a program that was compiled before any target was seen. */
static Status decide_class_axis(Session *s, const Compiled *c, const NamedTensor *in, int n_in)
{
    const Tensor *target = session_given_target(s, in, n_in);
    ClassAxis a = c->class_axis;

    if (!target)
        return ST_OK;
    TRY(class_axis_decide(&a, &target->shape));
    take_class_axis(s, &a);
    return ST_OK;
}

int session_class_axis(const Session *s)
{
    return s->class_axis.decided && s->class_axis.scores.rank != 2 ? s->class_axis.axis : 0;
}

Status session_keep_class_axis(Session *s, int axis)
{
    const ClassAxis kept = { .axis = axis, .decided = true };

    if (!axis)
        return ST_OK;
    if (s->class_axis.decided && s->class_axis.axis != axis)
        return FAIL(E_INVALID,
                    "the classes are along axis %d of the logits, in the run of the checkpoint along axis %d: give "
                    "--class-axis %d",
                    s->class_axis.axis, axis, axis);
    take_class_axis(s, &kept);
    return ST_OK;
}

/* ---- how many are kept ---- */

int session_count_programs(const Session *s)
{
    int n = 0;

    for (const Compiled *c = s->compiled; c; c = c->next)
        n++;
    return n;
}

/* Frees the programs used longest ago, but none whose step is under way.  All stay while events of a trace point to
 * their nodes. */
static void forget_programs(Session *s)
{
    Compiled **at = &s->compiled, *c;

    for (int n = 0; *at && n < s->most_programs; n++)
        at = &(*at)->next;
    while (!s->keeps_programs && (c = *at)) {
        if (c->begun) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        compiled_free(c);
        s->forgotten++;
    }
}

void session_keep_programs(Session *s, int most)
{
    s->most_programs = most < SESSION_LEAST_PROGRAMS ? SESSION_LEAST_PROGRAMS : most;
    forget_programs(s);
}

/* An update has no batch that is divided. */
static int64_t each_of(const Session *s, BuildMode mode)
{
    return mode == BUILD_APPLY ? 0 : s->base.replicas.samples_each;
}

static const ReplicaReach *reach_of(const Session *s, BuildMode mode)
{
    static const ReplicaReach none;

    return mode == BUILD_APPLY ? &none : &s->reach;
}

/* Micro-batches have no gradients but their sums; an update after them has no predictions. */
static unsigned keeps_of(const Session *s, BuildMode mode)
{
    const unsigned outputs = MODES_LEARN >> mode & 1 ? KEEP_OUTPUTS : 0;

    return s->keeps & (outputs | (MODES_UPDATE >> mode & 1 ? KEEP_GRADIENTS : 0));
}

void session_set_keeps(Session *s, unsigned keeps) { s->keeps = keeps; }

/* The number of updates done; where players count their own, the smallest. */
static int64_t count_updates(const Session *s)
{
    const size_t n = strlen(STATE_STEP);
    int64_t least = INT64_MAX;

    for (int i = 0; i < states_count(s->states); i++) {
        const char *name = states_at(s->states, i)->name;
        int64_t updates = 0;
        const Tensor t = { DT_INT64, shape_scalar(), &updates };

        if (strncmp(name, STATE_STEP, n) || (name[n] && name[n] != '.'))
            continue;
        if (states_get(s->states, name, &t) || updates < least)
            least = updates;
    }
    return least == INT64_MAX ? 0 : least;
}

/* Do the steps of this mode read the means of parameters?  Before the first update there are none. */
static bool reads_means(const Session *s, BuildMode mode)
{
    return s->base.update.eval_means && mode < BUILD_TRAIN && count_updates(s) > 0;
}

/* Looks up, once for all steps, which outputs of the graph are those that the caller reads. */
static Status place_outputs(Compiled *c, const Session *s)
{
    const Graph *g = c->rest ? c->rest : c->graph;

    c->made = c->rest ? c->output : program_outputs(c->program, &c->n_made);
    c->n_made = g->n_output;
    if (!(c->output_place = malloc(((size_t)s->n_output + 1) * sizeof *c->output_place)))
        return FAIL_NOMEM();
    for (int i = 0; i < s->n_output; i++) {
        c->output_place[i] = -1;
        for (int k = 0; k < g->n_output && c->output_place[i] < 0; k++)
            if (!strcmp(g->output[k].name, s->output[i]))
                c->output_place[i] = k;
    }
    return ST_OK;
}

static Status compile_step(Session *s, Compiled *c, const NamedTensor *in, int n_in)
{
    const ReplicaReach *reach = reach_of(s, c->mode);
    InputShape *bound = NULL;
    BuildParts opt;
    size_t inputs;
    Status st;

    TRY(reach_copy(&c->reach, reach));
    if (reach->n && !(c->kept = calloc((size_t)reach->replicas, sizeof *c->kept)))
        return FAIL_NOMEM();
    st = session_build_options(&opt, &bound, s, c, in, n_in);
    st = st ? st : compile_with(s, c, &opt.build, in, n_in);
    free(bound);
    TRY(st);
    c->graph = c->program ? program_graph(c->program) : c->rest;
    inputs = (size_t)c->graph->n_input + 1;
    if (!(c->place = calloc(inputs, sizeof *c->place)) || !(c->name = calloc(inputs, sizeof *c->name)))
        return FAIL_NOMEM();
    return place_outputs(c, s);
}

static Status session_compile(Compiled **out, Session *s, BuildMode mode, bool means, const NamedTensor *in, int n_in)
{
    Compiled *c = calloc(1, sizeof *c);
    Status st;

    if (!c)
        return FAIL_NOMEM();
    c->mode = mode;
    c->samples_each = each_of(s, mode);
    c->means = means;
    c->keeps = keeps_of(s, mode);
    if ((st = compile_step(s, c, in, n_in))) {
        compiled_free(c);
        return st;
    }
    if (c->class_axis.axis && !s->class_axis.decided)
        take_class_axis(s, &c->class_axis);
    c->next = s->compiled;
    s->compiled = c;
    forget_programs(s);
    *out = c;
    return ST_OK;
}

/* ---- finding ---- */

/* The place of the graph's input i in the list; -1: it is not given.  The name is looked up only where the list does
 * not have it in the place of the last list. */
static int input_place(const Compiled *c, int i, const NamedTensor *in, int n_in)
{
    const int k = c->place[i];

    if (k >= 0 && k < n_in && in[k].name == c->name[i])
        return k;
    c->place[i] = named_place(in, n_in, value(c->graph, c->graph->input[i])->name);
    c->name[i] = c->place[i] < 0 ? NULL : in[c->place[i]].name;
    return c->place[i];
}

/* Do the given shapes suit?  Inputs that are not given suit when `partly`. */
static bool suits(const Compiled *c, BuildMode mode, const NamedTensor *in, int n_in, bool partly)
{
    const Graph *g = c->graph;

    if (c->mode != mode)
        return false;
    for (int i = 0; i < g->n_input; i++) {
        const int k = input_place(c, i, in, n_in);

        if (k >= 0 ? !shape_eq(&in[k].tensor.shape, value(g, g->input[i])->shape) : !partly)
            return false;
    }
    return true;
}

/* Where the program for these inputs stands in the list; its end: there is none. */
static Compiled **session_find(Session *s, BuildMode mode, bool means, const NamedTensor *in, int n_in, bool partly)
{
    Compiled **at = &s->compiled;

    while (*at &&
           ((*at)->samples_each != each_of(s, mode) || (*at)->means != means || (*at)->keeps != keeps_of(s, mode) ||
            !reach_same(&(*at)->reach, reach_of(s, mode)) || !suits(*at, mode, in, n_in, partly)))
        at = &(*at)->next;
    return at;
}

/* The program for these inputs, moved to the front. */
static Status obtain(Compiled **out, Session *s, BuildMode mode, const NamedTensor *in, int n_in, bool partly)
{
    const bool means = reads_means(s, mode);
    Compiled **at = session_find(s, mode, means, in, n_in, partly), *c;

    if (*at && (*at)->class_axis.axis && !s->class_axis.decided) {
        TRY(decide_class_axis(s, *at, in, n_in));
        at = session_find(s, mode, means, in, n_in, partly);
    }
    if (!(c = *at))
        return session_compile(out, s, mode, means, in, n_in);
    *at = c->next;
    c->next = s->compiled;
    s->compiled = c;
    *out = c;
    return ST_OK;
}

Status session_prepare(Session *s, BuildMode mode, const NamedTensor *in, int n_in)
{
    Compiled *c;

    return obtain(&c, s, mode, in, n_in, true);
}

/* ---- running ---- */

/* Interprets the rest, from the inputs and the outputs of the program. */
static Status run_rest(Session *s, Compiled *c, const NamedTensor *in, int n_in)
{
    const Interpretation how = { s->states, &s->devices, in_pieces(s), s->base.memory.plan_memory };
    const NamedTensor *made = NULL;
    NamedTensor *all;
    int n = 0;
    Status st;

    if (c->program) {
        TRY(program_run(c->program, in, n_in));
        made = program_outputs(c->program, &n);
    }
    if (!(all = malloc(((size_t)n_in + (size_t)n + 1) * sizeof *all)))
        return FAIL_NOMEM();
    if (n_in)
        memcpy(all, in, (size_t)n_in * sizeof *all);
    if (n)
        memcpy(all + n_in, made, (size_t)n * sizeof *all);
    st = interpret_step(&c->arena, c->output, c->rest, &how, all, n_in + n);
    free(all);
    return st;
}

/* Refuses parts of inputs: every process interprets all of the rest. */
static Status check_whole(const NamedTensor *in, int n_in, const GivenPart *part)
{
    for (int i = 0; part && i < n_in; i++)
        if (part->axis[i] >= 0 && part->to - part->from < in[i].tensor.shape.dim[part->axis[i]])
            return FAIL(E_UNSUPPORTED,
                        "input '%s' is given in parts, and shapes of the model depend on data: give every process all",
                        in[i].name);
    return ST_OK;
}

Status session_begin(SessionStep *step, Session *s, BuildMode mode, const NamedTensor *in, int n_in,
                     const GivenPart *part)
{
    Compiled *c;

    TRY(obtain(&c, s, mode, in, n_in, false));
    for (int i = 0; i < c->graph->n_input; i++)
        if (input_place(c, i, in, n_in) < 0)
            return program_find_inputs(c->place, c->graph, in, n_in); /* lists what is missing */
    if (c->rest)
        TRY(check_whole(in, n_in, part));
    TRY(c->rest ? run_rest(s, c, in, n_in) : program_begin(c->program, in, c->place, part));
    *step = (SessionStep){ c, c->rest ? 0 : program_turn(c->program) };
    c->begun++;
    c->runs++;
    return ST_OK;
}

void session_let_go(const SessionStep *step) { step->compiled->begun--; }

Status session_end(const NamedTensor **out, int *n_out, const SessionStep *step)
{
    Compiled *c = step->compiled;

    session_let_go(step);
    if (!c->rest)
        TRY(program_wait(c->program, step->turn));
    *out = c->made;
    *n_out = c->n_made;
    return ST_OK;
}

void session_number_outputs(Session *s, const char *const *name, int n)
{
    s->output = name;
    s->n_output = n;
}

const Tensor *session_output(const SessionStep *step, int number)
{
    const Compiled *c = step ? step->compiled : NULL;
    const int i = c ? c->output_place[number] : -1;

    return i < 0 ? NULL : &c->made[i].tensor;
}

Status session_step(const NamedTensor **out, int *n_out, Session *s, BuildMode mode, const NamedTensor *in, int n_in)
{
    SessionStep step;

    TRY(session_begin(&step, s, mode, in, n_in, NULL));
    return session_end(out, n_out, &step);
}

bool session_runs_ahead(const Session *s) { return s->devices.group != NULL; }

/* ---- reading ---- */

const Program *session_program(const Session *s, BuildMode mode)
{
    for (const Compiled *c = s->compiled; c; c = c->next)
        if (c->mode == mode)
            return c->rest ? NULL : c->program;
    return NULL;
}

const char *session_summary(const Session *s) { return s->summary; }

States *session_states(Session *s) { return s->states; }

void session_run_directly(Session *s)
{
    if (s->devices.n == 1 && s->devices.device[0])
        device_run_directly(s->devices.device[0]);
}

void session_share_states(Session *s, const Session *with)
{
    states_free(s->states);
    s->states = with->states;
    s->shares_states = true;
}

bool session_reads_means(const Session *s) { return reads_means(s, BUILD_INFER); }

void session_set_ways(Session *s, const Ways *ways) { s->ways = *ways; }

int64_t session_samples_each(const Session *s) { return s->base.replicas.samples_each; }

void session_set_samples_each(Session *s, int64_t samples) { s->base.replicas.samples_each = samples; }

const bool *session_reach_kept(const SessionStep *step) { return step->compiled->kept; }

Status session_set_reach(Session *s, const InputReach *list, int n)
{
    const int replicas = s->base.replicas.replicas ? s->base.replicas.replicas : s->devices.n;

    reach_free(&s->reach);
    return reach_copy(&s->reach, &(ReplicaReach){ (InputReach *)(uintptr_t)list, n, replicas });
}

uint64_t session_forgotten(const Session *s) { return s->forgotten; }

uint64_t session_step_runs(const SessionStep *step) { return step->compiled->runs; }

void session_set_trace(Session *s, Trace *t, bool keeps)
{
    s->trace = t;
    s->keeps_programs = keeps;
    for (Compiled *c = s->compiled; c; c = c->next)
        if (c->program)
            program_set_trace(c->program, t);
}
