/* The trainer: its life, the end of an epoch and export.
 *
 * The processes of a world settle before they begin that they were given the same, and that their devices fit
 * together. */
#include "exec/api/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "exec/inspect/links.h"
#include "exec/inspect/profile.h"
#include "exec/inspect/replica_weights.h"
#include "exec/inspect/transform.h"
#include "exec/operators/operators.h"
#include "exec/plan/trace.h"
#include "exec/train/attach.h"
#include "graph/base/foreign.h"
#include "graph/base/outfile.h"
#include "graph/text/print.h"
#include "passes/model/inference.h"
#include "passes/options/batch.h"
#include "passes/options/batch_norm.h"
#include "passes/options/replicas.h"
#include "passes/options/target.h"
#include "passes/options/types.h"
#include "passes/options/update.h"

/* ---- facts that must be the same in all processes ---- */

/* Adds the first inputs by name: where an input is a sequence or optional, their names depend on the process's data. */
static Status add_inputs(Facts *f, const Graph *g)
{
    enum { FEW = 64 };
    char name[160];

    for (int i = 0; i < g->n_input && i < FEW; i++) {
        snprintf(name, sizeof name, "input '%.120s' of type", value(g, g->input[i])->name);
        TRY(facts_add(f, name, dtype_name(value(g, g->input[i])->dtype)));
    }
    return ST_OK;
}

/* Adds a digest of the graph's text without tensors, and of the constants that are no floats: of floats the session has
 * not decided yet which are state, whose values may differ. */
static Status add_model(Facts *f, const Graph *g)
{
    static const PrintOptions brief = { .no_init = true };
    XXH3_state_t *state = XXH3_createState();
    uint64_t digest;
    char *text = NULL;
    Status st = state ? graph_text(&text, g, &brief) : FAIL_NOMEM();

    if (!st) {
        XXH3_64bits_reset(state);
        XXH3_64bits_update(state, text, strlen(text));
        for (uint32_t i = 1; i < g->n_value; i++)
            if (g->value[i]->init && g->value[i]->init->data && !dtype_is_float(g->value[i]->dtype))
                XXH3_64bits_update(state, g->value[i]->init->data, tensor_bytes(g->value[i]->init));
        digest = XXH3_64bits_digest(state);
        st = facts_add_digest(f, "a model of digest", &digest, sizeof digest);
    }
    free(text);
    XXH3_freeState(state);
    return st;
}

/* Adds all options but those that may differ: --devices, and the cores of other threads. */
static Status add_options(Facts *f, const Options *o)
{
    const Tensor *weights = target_options(&o->build)->class_weights;

    for (int i = 0; i < options_count(); i++) {
        char name[64];

        snprintf(name, sizeof name, "--%s", options_at(i).name);
        if (strcmp(options_at(i).name, "devices") && strcmp(options_at(i).name, "loader-threads"))
            TRY(facts_add(f, name, options_get(o, options_at(i).name)));
    }
    if (weights)
        TRY(facts_add_digest(f, "class weights of digest", weights->data, tensor_bytes(weights)));
    return ST_OK;
}

/* Adds what own operators declare; their functions may differ. */
static Status add_operators(Facts *f, const dpx_model *m)
{
    for (int k = 0; k < m->n_operators; k++)
        for (int i = 0; i < m->operators[k]->n; i++) {
            char name[OPERATOR_TEXT], says[OPERATOR_TEXT];

            operator_text(name, says, m->operators[k], i);
            TRY(facts_add(f, name, says));
        }
    return ST_OK;
}

static Status add_all(Facts *f, const dpx_trainer *t, const DeviceList *list)
{
    char devices[64];

    snprintf(devices, sizeof devices, "%d of %s", list->n, list->device[0].cuda ? "CUDA" : "the CPU");
    TRY(facts_add(f, "version", dpx_version()));
    TRY(add_inputs(f, t->model->graph));
    TRY(add_model(f, t->model->graph));
    TRY(add_operators(f, t->model));
    TRY(add_options(f, t->options));
    TRY(facts_add(f, "devices", devices));
    return facts_add_all(f, t->options->world->notes);
}

/* ---- devices ---- */

static void forward_log(void *user, LineLevel level, const char *line)
{
    dpx_trainer *t = user;
    char text[1024];

    snprintf(text, sizeof text, "%s", line);
    foreign_clean(text);
    if (t->log)
        t->log(t->log_user, (int)level, text);
}

/* The order of sums over processes is the library's, if there is one that adds. */
static Status choose_sums(dpx_trainer *t)
{
    World *w = trainer_world(t);

    if (!t->options->ways.library_sums)
        return ST_OK;
    if (world_size(w) > 1 && !world_can_add(w))
        return FAIL(E_INVALID, "--reduce library needs processes that MPI connects (mpirun, srun; "
                               "docs/guide/cluster.md), found processes connected by sockets");
    forward_log(t, LINE_INFO,
                world_size(w) > 1 ? "sums over processes are added in MPI's order (--reduce library): their last bits "
                                    "depend on the mapping of replicas to processes, and on the MPI library"
                                  : "--reduce library has no effect: there is one process");
    return ST_OK;
}

/* To be called before anything is compiled.  E_INVALID lists everything that differs between the processes.  Sets the
 * list's world and teams. */
static Status enter_world(const dpx_trainer *t, DeviceList *list)
{
    World *w = trainer_world(t);
    int devices = list->n * world_size(w), replicas = replica_options(&t->options->build)->replicas;
    Facts *f;
    Status st;

    if (world_size(w) == 1)
        return ST_OK;
    if (!(f = facts_create()))
        return FAIL_NOMEM();
    world_set_purpose(w, WORLD_STARTED);
    st = add_all(f, t, list);
    if (!st)
        st = world_agree(w, f, WORLD_UNLIKE);
    facts_free(f);
    TRY(st);
    if (replicas && replicas < devices)
        return FAIL(E_INVALID, "--replicas %d: fewer than the %d devices of %d process%s", replicas, devices,
                    world_size(w), world_size(w) == 1 ? "" : "es");
    list->world = w;
    return device_list_equal_teams(list, t->options->threads);
}

/* ---- life ---- */

void dpx_trainer_free(dpx_trainer *t)
{
    if (!t)
        return;
    session_free(t->session);
    trace_free(t->trace);
    profile_free(t->profile);
    measured_restart(&t->measured);
    measured_restart(&t->trained);
    free(t->prediction);
    free(t->decided);
    lengths_forget(&t->lengths);
    preprocess_free(t->preprocess);
    contexts_free(t->contexts);
    options_free(t->options);
    model_release(t->model);
    free(t);
}

static Status trainer_prepare(dpx_trainer *t)
{
    const BuildOptions *b = &t->options->build;

    if (!batch_options(b)->batch)
        return ST_OK;
    if (!has_loss(b))
        return session_prepare(t->session, BUILD_INFER, NULL, 0);
    if (scores_exactly(t))
        return session_prepare(t->session, BUILD_EVAL, NULL, 0);
    if (t->options->accumulate == 1)
        return session_prepare(t->session, BUILD_TRAIN, NULL, 0);
    TRY(session_prepare(t->session, BUILD_ACCUMULATE, NULL, 0));
    return session_prepare(t->session, update_options(b)->turns ? BUILD_FINISH : BUILD_APPLY, NULL, 0);
}

/* Sets --split to the weights that were found by looking at the devices, so that a resumed run has the same parts. */
static Status decide_split(dpx_trainer *t, const DeviceList *list)
{
    ReplicaOptions all = *replica_options(&t->options->build);
    double weight[MAX_REPLICAS];
    const char *text;

    TRY(split_decide(&all, weight, list));
    if (all.split != SPLIT_WEIGHTS)
        return ST_OK;
    text = split_text(&all, t->options->arena);
    return text ? options_set(t->options, "split", text) : FAIL_NOMEM();
}

/* Sets --isa to the instruction set in use, which processes compare and a resumed run is told of. */
static Status decide_isa(dpx_trainer *t, const DeviceList *list)
{
    const char *isa = t->options->ways.isa ? t->options->ways.isa : cpu_kernels(NULL).isa;

    return list->device[0].cuda || !isa ? ST_OK : options_set(t->options, "isa", isa);
}

static Status decide_links(dpx_trainer *t, const DeviceList *list)
{
    char text[256];

    TRY(links_settle(t->options, list));
    if (t->options->ways.latency_bytes > 0 && world_size(list->world) > 1) {
        snprintf(
            text, sizeof text,
            "--links: a message takes as long as sending %.0f bytes, so small sums are sent whole to all processes",
            t->options->ways.latency_bytes);
        forward_log(t, LINE_INFO, text);
    }
    return ST_OK;
}

/* `beside`: whose states it has; NULL: it has its own. */
static Status trainer_create(dpx_trainer *t, const dpx_options *options, const dpx_trainer *beside)
{
    DeviceList devices;
    DType dtype;
    int replicas;

    TRY(transform_check_model(t->model->graph));
    TRY(model_check_attached(t->model, (const Options *)options));
    TRY(options_copy(&t->options, (const Options *)options));
    TRY(options_check(t->options));
    TRY(options_devices(&devices, t->options));
    TRY(decide_isa(t, &devices));
    TRY(enter_world(t, &devices));
    TRY(decide_split(t, &devices));
    TRY(decide_links(t, &devices));
    TRY(choose_sums(t));
    TRY(metrics_create(t->metric, t->options));
    dtype = type_options(&t->options->build)->dtype;
    replicas = replica_options(&t->options->build)->replicas;
    t->dtype = dtype != DT_NONE ? dtype : t->model->dtype;
    t->devices = devices.n * world_size(trainer_world(t));
    t->replicas = replicas ? replicas : t->devices;
    TRY(session_create(&t->session, t->model->graph, &t->options->build, &devices, forward_log, t));
    if (beside)
        session_share_states(t->session, beside->session);
    TRY(batch_expect(t));
    TRY(trainer_number_outputs(t));
    session_set_ways(t->session, &t->options->ways);
    session_keep_programs(t->session, t->options->programs);
    TRY(trainer_prepare(t));
    t->states_known = batch_options(&t->options->build)->batch > 0;
    return trainer_replicate(t, &t->options->replication);
}

static Status trainer_make(dpx_trainer **out, const dpx_model *model, const dpx_options *options,
                           const dpx_trainer *beside, dpx_log_fn *log, void *user)
{
    dpx_trainer *t = calloc(1, sizeof *t);
    Status st;

    if (!t)
        return FAIL_NOMEM();
    t->model = model_keep(model);
    t->log = log;
    t->log_user = user;
    trainer_forget_observed(t);
    for (int k = 0; k <= MAX_GROUPS; k++)
        t->rate[k] = NAN;
    if ((st = trainer_share_failure(t, trainer_create(t, options, beside))))
        dpx_trainer_free(t);
    else
        *out = t;
    return st;
}

Status trainer_create_beside(dpx_trainer **out, const dpx_model *model, const Options *o, const dpx_trainer *beside)
{
    return trainer_make(out, model, (const dpx_options *)o, beside, NULL, NULL);
}

dpx_status dpx_trainer_create(dpx_trainer **out, const dpx_model *model, const dpx_options *options, dpx_log_fn *log,
                              void *user)
{
    NEED(out, "out");
    NEED(model, "model");
    NEED(options, "options");
    return (dpx_status)trainer_make(out, model, options, NULL, log, user);
}

const char *dpx_trainer_option(const dpx_trainer *t, const char *name)
{
    return t && name ? options_get(t->options, name) : NULL;
}

double dpx_trainer_group_lr(const dpx_trainer *t, int group, int64_t step)
{
    return t && group >= 0 && group <= t->options->n_group && step > 0 ? trainer_rate(t, group, step - 1) : NAN;
}

double dpx_trainer_group_norm(const dpx_trainer *t, int group)
{
    return t && t->has_norms && group >= 0 && group <= t->options->n_group ? t->group_norm[group] : NAN;
}

double dpx_trainer_group_scale(const dpx_trainer *t, int group)
{
    return t && t->has_norms && group >= 0 && group <= t->options->n_group ? t->group_scale[group] : NAN;
}

int dpx_trainer_group_skipped(const dpx_trainer *t, int group)
{
    return t && group >= 0 && group <= t->options->n_group && t->group_skipped[group];
}

const char *dpx_trainer_summary(const dpx_trainer *t) { return t ? session_summary(t->session) : ""; }

int64_t dpx_trainer_memory(const dpx_trainer *t)
{
    size_t bytes;

    return t && !session_memory(&bytes, t->session) ? (int64_t)bytes : 0;
}

int dpx_trainer_replicas(const dpx_trainer *t) { return t ? t->replicas : 0; }

void dpx_trainer_on_step(dpx_trainer *t, dpx_progress_fn *progress, void *user)
{
    if (!t)
        return;
    t->progress = progress;
    t->progress_user = user;
}

/* ---- epochs ---- */

int dpx_trainer_runs_ahead(const dpx_trainer *t) { return t && session_runs_ahead(t->session); }

Status trainer_average(dpx_trainer *t)
{
    if (t->averaged || batch_norm_options(&t->options->build)->bn != BN_AVERAGE)
        return ST_OK;
    TRY(states_average(session_states(t->session)));
    t->averaged = true;
    return ST_OK;
}

dpx_status dpx_trainer_end_epoch(dpx_trainer *t)
{
    Status st;

    NEED(t, "trainer");
    st = trainer_check_room(t, true);
    if (!st && t->pending && !t->options->across_epochs)
        st = FAIL(E_INVALID, "an epoch ends in the middle of an accumulated group: call dpx_train_flush first, or set "
                             "accumulate-across-epochs");
    return (dpx_status)(st ? st : trainer_share_failure(t, trainer_average(t)));
}

/* ---- calls of all processes ---- */

Status trainer_agree(const dpx_trainer *t, Status st, const char *what)
{
    World *w = trainer_world(t);
    int64_t worst = 0;

    if (!trainer_has_peers(t))
        return st;
    /* The quotient is the status, and the rest the rank, counted down so that the first one is told. */
    if (st)
        worst = -(int64_t)st * WORLD_MAX + WORLD_MAX - 1 - world_rank(w);
    TRY(world_max(w, worst, &worst));
    if (st || !worst)
        return st;
    return FAIL((Status)(-(worst / WORLD_MAX)), "%s: rank %d cannot go on", what,
                (int)(WORLD_MAX - 1 - worst % WORLD_MAX));
}

/* ---- export ---- */

/* Puts the graph of "export-preprocess" in front of *g. */
static Status join_preprocess(Graph **g, int *opset, const dpx_trainer *t)
{
    Arena *arena = arena_create();
    OperatorList own = { NULL, 0 };
    Graph *joined = NULL;
    Status st = arena ? options_operators(&own, arena, t->options) : FAIL_NOMEM();

    if (!st)
        st = attach_preprocess(&joined, opset, *g, t->model->onnx, t->options, &own, t->options->export_preprocess);
    arena_free(arena);
    if (st)
        return st;
    graph_free(*g);
    *g = joined;
    return ST_OK;
}

Status trainer_export_graph(Graph **out, ExportOptions *how, dpx_trainer *t)
{
    Graph *g;
    Status st;

    if (trainer_know_states(t) == E_NOMEM) /* which of its constants are trained is marked where that is known */
        return E_NOMEM;
    TRY(session_model(out ? &g : NULL, t->session, t->model->given, t->options->export_ema ? EMA_SUFFIX : NULL));
    if (!out)
        return ST_OK;
    *how = (ExportOptions){ .plain = true, .model = t->model->onnx };
    st = inference_make(g);
    if (!st && t->options->export_preprocess)
        st = join_preprocess(&g, &how->opset, t);
    if (st)
        graph_free(g);
    else
        *out = g;
    return st;
}

static Status export_model(dpx_trainer *t, const char *path)
{
    ExportOptions how;
    Graph *g;
    Status st;

    TRY(trainer_export_graph(path ? &g : NULL, &how, t));
    if (!path)
        return ST_OK;
    st = onnx_export_file(g, &how, path);
    graph_free(g);
    return st;
}

dpx_status dpx_trainer_export(dpx_trainer *t, const char *path)
{
    NEED(t, "trainer");
    if (!trainer_has_peers(t))
        NEED(path, "path");
    world_set_purpose(trainer_world(t), "the exported model");
    return (dpx_status)export_model(t, path);
}
