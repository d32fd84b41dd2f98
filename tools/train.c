/* dpexec train: epochs of steps, with evaluation, checkpoints and a run folder. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/outfile.h"
#include "tools/checkpoint_note.h"
#include "tools/commands.h"
#include "tools/evaluate.h"
#include "tools/feed/input_members.h"
#include "tools/progress.h"
#include "tools/run_dir.h"
#include "tools/world.h"

enum { TRACE_EVENTS = 1 << 18 };                /* 8 MiB; later events are dropped */
static const double NEGATIVE = -1e-4;           /* a loss below this is negative by more than rounding */
static const double LEAST_LOSS_SCALE = 0x1p-24; /* of float16: gradients that overflow here are not finite at all */

static const Flag flags[] = {
    { "data", "SRC", "training data" },
    { "val", "SRC", "data to evaluate on" },
    { "val-split", "F",
      "evaluate on this part of --data, 0.1 for a tenth, and train on the rest; the same of each class" },
    SOURCE_FLAGS,
    { "class-weights", "FILE.npy", "weight of each class in the loss; `balanced`: inverse to its share of --data" },
    { "balanced", NULL, "draw samples with replacement, each class as often as any other" },
    SEQUENCE_FLAGS,
    { "epochs", "N", "passes over the data [1, unless --steps is given]" },
    { "steps", "N", "optimizer steps, whatever the epochs" },
    { "no-shuffle", NULL, "keep the order of the data" },
    { "group-by-length", NULL, "put sequences of similar length into a batch" },
    { "drop-last", NULL, "drop the last, smaller batch of each epoch" },
    { "out", "DIR", "folder for args.json, metrics.jsonl, checkpoints/ and model.onnx" },
    { "checkpoint-every", "N", "steps between checkpoints [only at the end]" },
    { "resume", "DIR", "continue from the newest checkpoint of the run in DIR (which is --out, unless that is given)" },
    { "eval-every", "N", "steps between evaluations [at the end of each epoch]" },
    { "trace", "FILE.json", "time every node and write Chrome's trace format, for chrome://tracing or Perfetto" },
    { "dry-run", NULL,
      "print what each device would execute and the memory it needs, and run nothing; no data is read" },
    { "quiet", NULL, "print nothing but warnings, errors and the result" },
    WORLD_FLAGS,
    { NULL, NULL, NULL },
};

const Command command_train = { "train",
                                "MODEL.onnx --data SRC --loss KIND [options]",
                                "Trains a model and writes it for inference.",
                                flags,
                                ALL_OPTIONS,
                                1,
                                1 };

typedef struct {
    const Args *args;
    dpx_model *model;
    dpx_trainer *trainer;
    Feed train, val;
    Strata strata; /* of --balanced */
    int workers;   /* threads of each loader */
    Loader *loader;
    RunDir dir;
    Progress progress;
    bool across_epochs; /* groups of batches */
    int64_t batch_size, accumulate, epochs, steps, checkpoint_every, eval_every;
    RunFacts facts;
    Position at;
    int64_t begun, step; /* steps begun; those whose result is known */
    int64_t saved_step;
    double since; /* when the last result was known */
    ToolWorld world;
    int signal;          /* that ends the run, caught by any process; 0: none */
    bool keeps, has_dir; /* there is a folder; this process writes it */
    bool running;        /* the command line and the files were right */
    EvalResult last_eval;
    int64_t eval_step;   /* of last_eval; -1: none yet */
    bool warned_of_eval; /* the loss of an evaluation is not finite, and the user was warned */
    double last_loss;    /* of a step of this run; NaN: none yet */
    bool is_nll;         /* --loss nll, whose loss was not negative so far */
    int64_t first;       /* steps that were done when the run began or was resumed */
    int64_t skipped;     /* steps since then whose gradients were not finite at their loss scale */
    bool warned_of_skipped;
    int64_t positions, computed; /* counted by the trainer before the epoch */
    bool resumed;                /* the bytes read to resume are not logged yet */
} Run;

/* ---- signals ---- */

static volatile sig_atomic_t caught, has_begun;

/* The first signal asks for a checkpoint, the second ends the process at once.  Before the run has begun there is
 * nothing to keep, so the first signal ends it, too. */
static void on_signal(int sig)
{
    static const char early[] = "dpexec: stopped by a signal before the first step\n";
    ssize_t n = has_begun ? 0 : write(STDERR_FILENO, early, sizeof early - 1);

    if (caught || !has_begun || n < 0)
        _exit(128 + sig);
    caught = sig;
}

/* Between two steps, finds out whether any process has caught a signal: all stop after the same step.  `over`: this was
 * the last step. */
static Status agree_on_signal(Run *r, bool over)
{
    tool_set_purpose(&r->world,
                     over ? "the end, when all files are written" : "whether the run goes on after step %" PRId64,
                     r->begun);
    return world_most(&r->signal, &r->world, (int)caught);
}

/* ---- evaluation ---- */

/* Whether the loss of the last evaluation is not finite.  The model is written all the same. */
static bool lacks_loss(const Run *r) { return r->eval_step >= 0 && !isfinite(r->last_eval.loss); }

/* Warns of such a loss.  Bad evaluation data need not stop a run, so it is a warning at the first evaluation, and with
 * `ends` an error that goes with the exit status of the run. */
static void warn_of_eval(Run *r, bool ends)
{
    if (r->world.rank || (r->warned_of_eval && !ends) || !lacks_loss(r))
        return;
    r->warned_of_eval = true;
    progress_line(&r->progress,
                  "dpexec: %sthe evaluation loss of step %" PRId64
                  " is %g: look in --val for bad numbers or labels of which none counts, or lower --lr",
                  ends ? "" : "warning: ", r->eval_step, shown_number(r->last_eval.loss));
}

static Status evaluate_now(Run *r)
{
    const char *metric = dpx_options_get(r->args->options, "metric");
    const LoaderOptions how = {
        .batch_size = r->batch_size, .workers = r->workers, .log = report_log, .user = &r->progress
    };
    int64_t positions, computed, positions_now, computed_now;
    EvalResult e;

    if (!r->val.data || r->eval_step == r->step)
        return ST_OK;
    dpx_trainer_padding(r->trainer, &positions, &computed);
    TRY(evaluate(&e, r->trainer, &r->val, how, r->world.world, NULL));
    dpx_trainer_padding(r->trainer, &positions_now, &computed_now);
    r->positions += positions_now - positions; /* the evaluation does not count in the epoch */
    r->computed += computed_now - computed;
    r->last_eval = e;
    r->eval_step = r->step;
    if (r->step < r->steps)
        warn_of_eval(r, false);
    if (!r->progress.quiet && e.metric.measured && !e.metric.table.data)
        progress_line(&r->progress, "step %" PRId64 ": eval loss %.5f, eval %s %.4f", r->step, e.loss, metric,
                      e.metric.value);
    else if (!r->progress.quiet)
        progress_line(&r->progress, "step %" PRId64 ": eval loss %.5f", r->step, e.loss);
    return run_dir_log_eval(&r->dir, r->step, e.loss, e.metric.measured ? metric : NULL, &e.metric);
}

/* An evaluation that is due for other reasons than the run's end: learning-rate schedules may follow it. */
static Status evaluate_and_observe(Run *r)
{
    TRY(evaluate_now(r));
    return r->val.data ? (Status)dpx_trainer_observe(r->trainer, r->last_eval.loss, r->last_eval.metric.value) : ST_OK;
}

/* Whether schedules follow the training losses, because there are no evaluations. */
static bool observes_training(const Run *r) { return !r->val.data && r->facts.observes; }

/* ---- checkpoints ---- */

/* Writes a checkpoint.  The other processes contribute the parts of the state that they hold. */
static Status save(Run *r)
{
    char *note, path[4096];
    Status st;

    if (!r->keeps || r->saved_step == r->step)
        return ST_OK;
    note = note_write(&r->facts, r->at);
    st = note ? (Status)dpx_trainer_save(r->trainer, r->has_dir ? run_dir_file(&r->dir, "checkpoints", path) : NULL,
                                         note)
              : FAIL_NOMEM();
    free(note);
    if (!st)
        r->saved_step = r->step;
    return st;
}

/* Drops the lines of later steps from metrics.jsonl.  An evaluation of this step is repeated, because the data may have
 * changed, and replaces its line. */
static Status rewind_metrics(Run *r)
{
    bool evaluated = false;
    int again;

    if (r->has_dir)
        TRY(run_dir_rewind(&r->dir, r->step, r->val.data, &evaluated));
    tool_set_purpose(&r->world, "whether step %" PRId64 " is evaluated again", r->step);
    TRY(world_most(&again, &r->world, evaluated));
    return again ? evaluate_now(r) : ST_OK;
}

static Status resume(Run *r, const char *from)
{
    char path[PATH_MAX], *note = NULL;
    Status st;

    snprintf(path, sizeof path, "%s/checkpoints", from);
    TRY((Status)dpx_trainer_resume(r->trainer, path, &note));
    r->resumed = true;
    r->step = r->saved_step = dpx_trainer_step_count(r->trainer);
    snprintf(path, sizeof path, "%s/checkpoints/step-%09" PRId64 "/manifest.json", from, r->step);
    st = note_read(&r->at, &r->facts, note, r->step, path, r->world.rank ? NULL : report_log, &r->progress);
    free(note);
    TRY(st);
    if (!r->progress.quiet)
        progress_line(&r->progress, "resumed at step %" PRId64 " of epoch %" PRId64 ", %d replica%s", r->step,
                      r->at.epoch + 1, r->facts.replicas, r->facts.replicas == 1 ? "" : "s");
    return ST_OK;
}

/* ---- preparation ---- */

/* E_INVALID when n times `each` batches, and some for rounding, do not fit an int64_t. */
static Status check_batches(int64_t n, const char *flag, int64_t each, const char *of)
{
    const int64_t most = INT64_MAX / 2 / each;

    return n > most ? FAIL(E_INVALID, "--%s %" PRId64 ": of %s%" PRId64 " batches each, expected at most %" PRId64,
                           flag, n, of, each, most)
                    : ST_OK;
}

static Status read_counts(Run *r)
{
    const Args *a = r->args;
    int64_t per_epoch, groups, most;

    TRY(args_int(&r->epochs, a, "epochs", args_has(a, "steps") ? 0 : 1, 1, 1000000000));
    TRY(args_int(&r->steps, a, "steps", 0, 1, INT64_MAX / 2));
    TRY(args_int(&r->checkpoint_every, a, "checkpoint-every", 0, 1, INT64_MAX / 2));
    TRY(args_int(&r->eval_every, a, "eval-every", 0, 1, INT64_MAX / 2));
    per_epoch = loader_batches(r->loader);
    if (!per_epoch)
        return FAIL(E_INVALID, "--drop-last: %" PRId64 " samples do not fill one batch of %" PRId64,
                    r->train.data->samples, r->batch_size);
    TRY(check_batches(r->epochs, "epochs", per_epoch, ""));
    TRY(check_batches(r->steps, "steps", r->accumulate, "--accumulate "));
    groups = (per_epoch + r->accumulate - 1) / r->accumulate;
    most = r->across_epochs ? (r->epochs * per_epoch + r->accumulate - 1) / r->accumulate : r->epochs * groups;
    if (r->epochs && (!r->steps || most < r->steps))
        r->steps = most;
    if (!r->epochs)
        r->epochs = r->across_epochs ? (r->steps * r->accumulate + per_epoch - 1) / per_epoch
                                     : (r->steps + groups - 1) / groups;
    if (!args_has(a, "drop-last") && r->steps * r->accumulate >= per_epoch)
        TRY(args_count(a, "samples", r->train.data->samples));
    return args_count(a, "total-steps", r->steps);
}

static Status open_feed(Run *r, Feed *feed, const char *flag, Progress *log)
{
    tool_set_purpose(&r->world, "the check of --%s", flag);
    if (!feed->fitted)
        feed->fitted = json_incref(r->train.fitted);
    TRY(feed_open(feed, r->args, flag, r->model, world_share_of(&r->world), log));
    TRY(feed_check_target(feed, &r->train));
    TRY(feed_check_order(feed, r->args, r->batch_size, feed == &r->train && !args_has(r->args, "no-shuffle")));
    return digest_check(feed->data, feed->source, r->world.world, world_share_of(&r->world));
}

/* Lets the loader draw from all classes alike. */
static Status open_strata(Run *r, LoaderOptions *how)
{
    int64_t *number;

    if (args_has(r->args, "no-shuffle"))
        return FAIL(E_INVALID, "--balanced draws samples: leave out --no-shuffle");
    TRY(feed_strata(&r->strata, &number, &r->train, r->args, "balanced"));
    free(number);
    how->balanced = &r->strata;
    return ST_OK;
}

static Status open_data(Run *r)
{
    const Args *a = r->args;
    Progress *log = r->world.rank ? NULL : &r->progress;
    LoaderOptions how = { .shuffle = !args_has(a, "no-shuffle"),
                          .drop_last = args_has(a, "drop-last"),
                          .group_by_length = args_has(a, "group-by-length"),
                          .training = true,
                          .log = report_log,
                          .user = &r->progress };

    if (!*dpx_options_get(a->options, "batch-size"))
        TRY((Status)dpx_options_set(a->options, "batch-size", "32"));
    how.batch_size = r->batch_size = strtoll(dpx_options_get(a->options, "batch-size"), NULL, 10);
    how.seed = strtoull(dpx_options_get(a->options, "seed"), NULL, 10);
    r->accumulate = strtoll(dpx_options_get(a->options, "accumulate"), NULL, 10);
    r->across_epochs = !strcmp(dpx_options_get(a->options, "accumulate-across-epochs"), "true");
    TRY(digest_file(r->facts.parameters, dpx_options_get(a->options, "parameters")));
    TRY(digest_file(r->facts.criterion, dpx_options_get(a->options, "criterion")));
    TRY(digest_file(r->facts.preprocess, dpx_options_get(a->options, "preprocess")));
    if (args_has(a, "val") && args_has(a, "val-split"))
        return FAIL(E_INVALID, "--val-split evaluates on a part of --data: leave it out, or --val");
    TRY(open_feed(r, &r->train, "data", log));
    TRY(feed_class_weights(a, &r->train, r->facts.class_weights));
    TRY(feed_fitted_digest(&r->train, r->facts.fitted));
    if (!args_has(a, "resume")) /* a checkpoint holds what the run decided by it */
        TRY(feed_target_shape(a, &r->train, r->batch_size));
    TRY(feed_input_shapes(a, &r->train, r->batch_size));
    tool_set_purpose(&r->world, "the digest of --data");
    TRY(digest_fields(r->facts.data, r->train.field, r->train.n, r->world.world, world_share_of(&r->world)));
    if (args_has(a, "val"))
        TRY(open_feed(r, &r->val, "val", log));
    else if (r->train.held)
        feed_take_held(&r->val, &r->train);
    else if (log && strcmp(dpx_options_get(a->options, "metric"), "none"))
        progress_line(log, "dpexec: warning: --metric %s is measured on training batches alone: --val is not given",
                      dpx_options_get(a->options, "metric"));
    if (args_has(a, "balanced"))
        TRY(open_strata(r, &how));
    TRY(feed_workers(&r->workers, a, &r->train));
    how.workers = r->workers;
    TRY(loader_create(&r->loader, r->train.data, r->train.field, r->train.n, how));
    return read_counts(r);
}

/* Notes data and flags that must be equal in all processes; the library does so for options. */
static Status note_given(const Run *r)
{
    static const char *const same[] = { "epochs",           "steps",        "no-shuffle",     "drop-last", "eval-every",
                                        "checkpoint-every", "pad-multiple", "group-by-length" };

    TRY(world_note_data(&r->world, "--data of digest", &r->train));
    if (r->val.data)
        TRY(world_note_data(&r->world, "--val of digest", &r->val));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        TRY(world_note_flag(&r->world, r->args, same[i]));
    if (r->world.world)
        TRY((Status)dpx_world_note(r->world.world, "--trace", args_has(r->args, "trace") ? "given" : "not given"));
    if (r->world.world && strcmp(dpx_options_get(r->args->options, "shard"), "none")) /* all take part in checkpoints */
        TRY((Status)dpx_world_note(r->world.world, "--out", args_has(r->args, "out") ? "given" : "not given"));
    return world_note_flag(&r->world, r->args, "resume");
}

/* Sets *from to NULL when the run in the folder ended before its first checkpoint: it begins again. */
static Status find_checkpoint(const char **from, Run *r)
{
    bool kept = true;

    if (*from)
        TRY(run_dir_check_resume(&kept, *from, !r->world.rank));
    if (kept)
        return ST_OK;
    if (!r->world.rank)
        progress_line(&r->progress, "dpexec: warning: --resume %s: there is no checkpoint: the run begins again",
                      *from);
    *from = NULL;
    return ST_OK;
}

/* Lets a resumed run split its batches as before, on any devices, unless the user says otherwise: takes the option from
 * a checkpoint.  The checkpoint that is loaded later must have the same value. */
static Status keep_option(const Args *a, const char *name)
{
    char *text;
    Status st = ST_OK;

    if (!args_has(a, "resume") || (args_has(a, name) && strcmp(args_value(a, name), "auto")))
        return ST_OK;
    if ((text = note_find(args_value(a, "resume"), name)) && *text)
        st = (Status)dpx_options_set(a->options, name, text);
    free(text);
    return st;
}

/* Loads the model and the data, and creates the trainer. */
static Status load_all(Run *r)
{
    static const char *const kept[] = { "replicas", "split", "links" }, *const decided[] = { "split", "links" };
    const Args *a = r->args;
    int observes;

    if (args_has(a, "trace") && !r->world.rank && outfile_check(args_value(a, "trace")))
        return FAIL(E_IO, "--trace %s", status_message());
    TRY(world_agree_given(&r->world, a, "val")); /* data are read by all together */
    TRY(note_check_model(a));
    TRY(members_load(&r->model, a, &r->train, "data", r->world.rank ? NULL : &r->progress));
    TRY(open_data(r));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        TRY(keep_option(a, kept[i]));
    TRY(note_given(r));
    TRY((Status)dpx_trainer_create(&r->trainer, r->model, a->options, r->world.rank ? NULL : report_log, &r->progress));
    observes = dpx_trainer_observes(r->trainer);
    if ((observes & DPX_OBSERVES_METRIC) && !r->val.data)
        return FAIL(E_INVALID, "--lr-schedule plateau follows the metric of evaluations: --val is not given");
    if ((observes & DPX_OBSERVES_METRIC) && !strcmp(dpx_options_get(a->options, "metric"), "none"))
        return FAIL(E_INVALID,
                    "--lr-schedule plateau with mode max or min-metric follows the metric: --metric is not given");
    for (size_t i = 0; i < sizeof decided / sizeof *decided; i++) /* for args.json and checkpoints */
        if (*dpx_trainer_option(r->trainer, decided[i]))
            TRY((Status)dpx_options_set(a->options, decided[i], dpx_trainer_option(r->trainer, decided[i])));
    if (r->world.world)
        TRY(loader_share(r->loader, r->trainer));
    if (args_has(a, "trace")) /* all ranks: collectives are captured by all or by none */
        TRY((Status)dpx_trainer_trace(r->trainer, TRACE_EVENTS));
    return ST_OK;
}

/* Loads everything, opens the run's folder and resumes. */
static Status open_run(Run *r)
{
    const Args *a = r->args;
    struct stat x, y;
    const char *from = args_value(a, "resume"), *out = args_value(a, "out") ? args_value(a, "out") : from;

    TRY(load_all(r));
    has_begun = true;
    TRY(find_checkpoint(&from, r));
    if (out)
        TRY(run_dir_check_names(r->model));
    r->keeps = out != NULL;
    if (out && !r->world.rank) {
        const bool same = from && !stat(out, &x) && !stat(from, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;

        TRY(run_dir_open(&r->dir, out, same));
        r->has_dir = true;
        if (*r->dir.aside)
            progress_line(
                &r->progress,
                "dpexec: warning: %s: the run that began here ended before its first checkpoint: its metrics are now "
                "%s",
                out, r->dir.aside);
    } else if (!out && r->checkpoint_every)
        return FAIL(E_INVALID, "--checkpoint-every needs --out");

    r->facts.args = a;
    r->facts.samples = r->train.data->samples;
    r->facts.batches = loader_batches(r->loader);
    r->facts.epochs_of_step = r->across_epochs ? r->accumulate : 1;
    r->facts.replicas = dpx_trainer_replicas(r->trainer);
    r->facts.observes = dpx_trainer_observes(r->trainer) != 0;
    if (from)
        TRY(resume(r, from));
    if (r->has_dir) { /* a refused --resume leaves the old run's as they are */
        TRY(run_dir_write_args(&r->dir, a));
        TRY(feed_write_fitted(&r->train, out));
    }
    return from ? rewind_metrics(r) : ST_OK;
}

static void close_run(Run *r, int failed)
{
    progress_end(&r->progress);
    loader_free(r->loader);
    feed_close(&r->val);
    feed_close(&r->train);
    strata_free(&r->strata);
    run_dir_close(&r->dir);
    dpx_trainer_free(r->trainer);
    dpx_model_free(r->model);
    world_close(&r->world, failed);
}

/* ---- the loop ---- */

/* Sums over all processes what was read for the epoch, if this step *ends it or the run, which is so in all processes.
 */
static Status sum_read(RunRead *out, bool *ends, Run *r)
{
    *ends = r->step == r->begun && (r->at.batch == loader_batches(r->loader) || r->step == r->steps);
    if (!*ends)
        return ST_OK;
    dpx_trainer_padding(r->trainer, &out->positions, &out->computed);
    out->positions -= r->positions;
    out->computed -= r->computed;
    tool_set_purpose(&r->world, "the metrics of epoch %" PRId64, r->at.epoch + 1);
    out->resumed = r->resumed;
    r->resumed = false;
    if (out->resumed)
        TRY(world_count(&out->state, &out->most_state, &r->world, dpx_trainer_bytes_resumed(r->trainer)));
    return world_read(&out->all, &out->most, &r->world, loader_take_read(r->loader));
}

/* The metric over the epoch's training steps, if this was its last one and there is a metric. */
static Status measure_epoch(dpx_metric *out, bool *measured, Run *r)
{
    const bool ends = r->step == r->begun && r->at.batch == loader_batches(r->loader);
    const char *metric = ends ? dpx_options_get(r->args->options, "metric") : "none";

    *measured = strcmp(metric, "none") != 0;
    if (!*measured)
        return ST_OK;
    TRY((Status)dpx_trainer_train_metric(r->trainer, out));
    if (!r->progress.quiet && out->measured && !out->table.data)
        progress_line(&r->progress, "step %" PRId64 ": train loss %.5f, train %s %.4f", r->step,
                      shown_number(out->loss), metric, out->value);
    return ST_OK;
}

static Status log_step(Run *r, const dpx_result *result)
{
    dpx_metric trained;
    RunRead read;
    bool ends, measured;

    r->at.sum += observes_training(r) ? result->loss_sum : 0;
    r->at.weight += observes_training(r) ? result->loss_weight : 0;
    TRY(sum_read(&read, &ends, r));
    TRY(measure_epoch(&trained, &measured, r));
    TRY(run_dir_log_step(&r->dir, r->trainer, result, r->at.epoch + 1, (seconds_now() - r->since) * 1e3,
                         ends ? &read : NULL, measured ? dpx_options_get(r->args->options, "metric") : NULL,
                         measured ? &trained : NULL));
    if (measured)
        dpx_trainer_restart_train_metric(r->trainer);
    return ST_OK;
}

/* An error when gradients are not finite at the smallest loss scale: no other scale can help. */
static Status check_scales(const Run *r, const dpx_result *result)
{
    for (int k = 0; result->skipped && !isnan(dpx_trainer_group_lr(r->trainer, k, result->step)); k++) {
        const double scale = dpx_trainer_group_scale(r->trainer, k);

        if (dpx_trainer_group_skipped(r->trainer, k) && scale <= LEAST_LOSS_SCALE)
            return FAIL(E_INVALID,
                        "the gradients of step %" PRId64
                        " are not finite at a loss scale of %g: look for bad numbers in the data, or "
                        "give --precision bfloat16",
                        r->step, scale);
    }
    return ST_OK;
}

/* Warns, once, at the end of an epoch or the run, that a fixed loss scale is too large. */
static void warn_of_skipped(Run *r)
{
    if (!r->skipped || r->warned_of_skipped || r->world.rank ||
        !strncmp(dpx_options_get(r->args->options, "loss-scale"), "dynamic", strlen("dynamic")) ||
        !*dpx_options_get(r->args->options, "loss-scale"))
        return;
    r->warned_of_skipped = true;
    progress_line(&r->progress,
                  "dpexec: warning: %" PRId64 " of %" PRId64
                  " step%s left parameters as they were: gradients overflow at "
                  "--loss-scale %s; give a smaller one, or dynamic",
                  r->skipped, r->step - r->first, r->step - r->first == 1 ? "" : "s",
                  dpx_options_get(r->args->options, "loss-scale"));
}

/* Logs the result of a step, and evaluates and saves where that is due. */
static Status finish_step(Run *r, const dpx_result *result)
{
    bool was_finite = isfinite(result->loss);

    r->step = result->step;
    r->last_loss = result->loss;
    r->skipped += result->skipped;
    if (r->is_nll && result->loss < NEGATIVE) { /* log-probabilities are not positive, so their loss is not negative */
        r->is_nll = false;
        if (!r->world.rank)
            progress_line(&r->progress, "dpexec: warning: the loss is negative: --loss nll expects log-probabilities; "
                                        "for logits use --loss cross-entropy");
    }
    TRY(log_step(r, result));
    if (!was_finite)
        return FAIL(E_INVALID,
                    "the loss of step %" PRId64
                    " is %g: look for bad numbers in the data or a batch without a label that counts, "
                    "lower --lr, or give --clip-norm",
                    r->step, shown_number(result->loss));
    TRY(check_scales(r, result));
    progress_step(&r->progress, r->at.epoch + 1, r->epochs, r->step, r->steps, result->loss, result->samples);
    if (r->eval_every && r->step % r->eval_every == 0)
        TRY(evaluate_and_observe(r));
    if (r->checkpoint_every && r->step % r->checkpoint_every == 0)
        TRY(save(r));
    return ST_OK;
}

/* Takes results, in order, until at most `left` are missing. */
static Status take_results(Run *r, int left)
{
    while (r->begun - r->step > left) {
        dpx_result result;

        TRY((Status)dpx_train_result(r->trainer, &result));
        TRY(finish_step(r, &result));
        r->since = seconds_now();
    }
    return ST_OK;
}

/* Ends an epoch.  Schedules may follow its loss: the mean over samples, or the sum where losses are sums.  There is
 * none when a step goes on into the next epoch. */
static Status end_epoch(Run *r)
{
    double sum, weight;

    TRY(take_results(r, 0));
    warn_of_skipped(r);
    r->at.epoch++;
    r->at.batch = 0;
    TRY((Status)dpx_trainer_end_epoch(r->trainer));
    sum = r->at.sum;
    weight = r->at.weight;
    r->at.sum = r->at.weight = 0;
    if ((sum != 0 || weight != 0) && observes_training(r))
        TRY((Status)dpx_trainer_observe(r->trainer, r->train.adds_up ? sum : sum / weight, NAN));
    return r->eval_every ? ST_OK : evaluate_and_observe(r);
}

/* Whether the present epoch's last group of batches goes on in the next epoch; it does not in the run's last. */
static bool goes_on(const Run *r) { return r->across_epochs && r->at.epoch + 1 < r->epochs; }

/* Begins a step: trains on batch b and those that follow it in its group. */
static Status train_begin_step(Run *r, const Batch *b)
{
    for (int64_t k = 1;; k++) {
        const bool last = b->index + 1 == loader_batches(r->loader), on = goes_on(r);
        Status st;

        if (last && !on)
            TRY((Status)dpx_trainer_close_group(r->trainer));
        TRY(loader_give_lengths(r->loader, b, r->trainer));
        st = (Status)(r->world.world ? dpx_train_part(r->trainer, b->samples, b->tensor, b->n, NULL)
                                     : dpx_train_step(r->trainer, b->tensor, b->n, NULL));

        TRY(feed_name_sample(st, &r->train, r->loader, b));
        r->at.batch = b->index + 1;
        if (k == r->accumulate || (last && !on))
            break;
        if (last) {
            TRY(end_epoch(r));
            TRY(loader_start(r->loader, r->at.epoch, 0));
        }
        if (!(b = loader_next(r->loader))) {
            TRY(loader_status(r->loader));
            break;
        }
    }
    r->begun++;
    return ST_OK;
}

/* Trains on the rest of the present epoch.  Stops between two steps when a signal has come or the last step is done. On
 * devices that run ahead, the result of a step is read while the next one runs. */
static Status run_epoch(Run *r)
{
    const int ahead = dpx_trainer_runs_ahead(r->trainer);

    r->begun = r->step;
    r->since = seconds_now();
    TRY(agree_on_signal(r, false));
    TRY(loader_start(r->loader, r->at.epoch, r->at.batch));
    dpx_trainer_padding(r->trainer, &r->positions, &r->computed);
    for (const Batch *b; r->begun < r->steps && !r->signal && (b = loader_next(r->loader));) {
        bool due; /* an evaluation or a checkpoint needs the parameters as this step leaves them */

        TRY(train_begin_step(r, b));
        due = r->begun == r->steps || (r->eval_every && r->begun % r->eval_every == 0) ||
              (r->checkpoint_every && r->begun % r->checkpoint_every == 0);
        TRY(take_results(r, due ? 0 : ahead));
        TRY(agree_on_signal(r, false));
    }
    TRY(loader_status(r->loader));
    TRY(take_results(r, 0));
    return r->at.batch == loader_batches(r->loader) ? end_epoch(r) : ST_OK;
}

static Status finish_run(Run *r)
{
    char path[4096];

    warn_of_skipped(r);
    TRY(evaluate_now(r));
    TRY(save(r));
    if (r->keeps)
        TRY((Status)dpx_trainer_export(r->trainer, r->has_dir ? run_dir_file(&r->dir, "model.onnx", path) : NULL));
    if (args_has(r->args, "trace") && !r->world.rank)
        TRY((Status)dpx_trainer_write_trace(r->trainer, args_value(r->args, "trace")));
    progress_end(&r->progress);
    TRY(agree_on_signal(r, true)); /* the others end when rank 0 has written everything, or fail with it */
    if (r->world.rank)
        return ST_OK;
    printf("trained %" PRId64 " step%s in %.1f s", r->step, r->step == 1 ? "" : "s", seconds_now() - r->progress.start);
    if (r->eval_step < 0 && !isnan(r->last_loss))
        printf(", loss %.6g", shown_number(r->last_loss));
    if (r->eval_step >= 0)
        printf(": eval loss %.6g", r->last_eval.loss);
    if (r->eval_step >= 0 && r->last_eval.metric.measured && !r->last_eval.metric.table.data)
        printf(", eval %s %.4f", dpx_options_get(r->args->options, "metric"), r->last_eval.metric.value);
    if (r->skipped)
        printf(", %" PRId64 " of %" PRId64 " step%s skipped: gradients overflowed at their loss scale", r->skipped,
               r->step - r->first, r->step - r->first == 1 ? "" : "s");
    printf("\n");
    if (r->has_dir)
        printf("model: %s\n", path);
    return fflush(stdout) ? FAIL(E_IO, "cannot write the result: %s", strerror(errno)) : ST_OK;
}

static Status train(Run *r)
{
    if (!strcmp(dpx_options_get(r->args->options, "loss"), "none")) {
        char forms[256];
        int n = 0;

        for (int i = 0; dpx_choice_at("loss", i).name && n < (int)sizeof forms; i++)
            n += snprintf(forms + n, sizeof forms - (size_t)n, "%s%s",
                          !i                                  ? ""
                          : dpx_choice_at("loss", i + 1).name ? ", "
                                                              : " or ",
                          dpx_choice_at("loss", i).form);
        return FAIL(E_INVALID, "--loss is missing: %s", forms);
    }
    if (args_has(r->args, "dry-run"))
        return print_plan(r->args, r->progress.quiet);
    TRY(open_run(r));
    r->first = r->step;
    r->is_nll = !strcmp(dpx_options_get(r->args->options, "loss"), "nll");
    r->running = true;
    while (r->step < r->steps && !r->signal)
        TRY(run_epoch(r));
    if (!r->signal)
        return finish_run(r);
    TRY(save(r));
    TRY(agree_on_signal(r, true));
    if (!r->world.rank)
        progress_line(&r->progress, "stopped by a signal at step %" PRId64 "%s", r->step,
                      r->has_dir ? "; --resume goes on from here" : "");
    return ST_OK;
}

int run_train(const Args *a)
{
    const struct sigaction catch = { .sa_handler = on_signal }, ignore = { .sa_handler = SIG_IGN };
    Run r = { .args = a, .eval_step = -1, .last_loss = NAN, .saved_step = -1, .dir = { .lock = -1 } };
    int code = EXIT_DONE;
    Status st;

    progress_start(&r.progress, args_has(a, "quiet"));
    if (!(st = world_open(&r.world, a))) { /* until here a signal ends the process at once */
        r.progress.quiet |= r.world.rank > 0;
        sigaction(SIGINT, &catch, NULL);
        sigaction(SIGTERM, &catch, NULL);
        sigaction(SIGXFSZ, &ignore, NULL); /* a file over the limit is an error of write(), like a full disk */
        st = train(&r);
        if (st && r.world.world) {
            dpx_world_abort(r.world.world, dpx_error());
            st = status_prefix(st, "rank %d", r.world.rank);
        }
    }
    progress_end(&r.progress);
    if (st)
        code = args_failed(a, "dpexec", st);
    if (st && r.running)
        code = EXIT_FAILED;
    if (!st && !r.signal && lacks_loss(&r)) {
        warn_of_eval(&r, true);
        code = EXIT_FAILED;
    }
    close_run(&r, st ? code : 0);
    return !st && r.signal ? 128 + r.signal : code;
}
