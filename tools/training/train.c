/* dpexec train: epochs of steps, with evaluation, checkpoints and a run folder. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/base/numtext.h"
#include "tools/training/training.h"

static const Flag flags[] = {
    { "data", "SRC", "training data" },
    { "val", "SRC", "data to evaluate on" },
    { "val-split", "F[,HOW]",
      "share of --data to evaluate on, 0.1 for a tenth, and not to train on: the same share of each class; with HOW "
      "last: the last samples; with group=ARRAY: samples with the same number stay together" },
    SOURCE_FLAGS,
    { "augment", "LIST",
      "random changes of training images: some of crop,flip,rotate:15,color:0.4,erase; FILE.onnx: a graph that changes "
      "inputs of the model" },
    { "class-weights", "FILE.npy", "weight of each class in the loss; balanced: inverse to its share of --data" },
    { "balanced", NULL, "draw samples with replacement, each class as often as any other" },
    SEQUENCE_FLAGS,
    { "epochs", "N", "passes over the data [1, unless --steps is given]" },
    { "steps", "N", "optimizer steps, in place of --epochs" },
    { "no-shuffle", NULL, "keep the order of the data" },
    { "group-by-length", NULL, "put sequences of similar length into the same batch" },
    { "drop-last", NULL, "drop the last, smaller batch of each epoch" },
    { "out", "DIR", "folder for the files of the run; none: write nothing [runs/MODEL-N, the first free N]" },
    { "checkpoint-every", "EVERY",
      "time between checkpoints: steps (500), epochs (1e), or seconds, minutes or hours (90s, 10m, 2h) [only at the "
      "end]" },
    { "keep", "K", "number of newest checkpoints to keep, besides the best model's; or all [2]" },
    { "monitor", "METRIC[:max|min]",
      "metric of --val that chooses the best model, and that --lr-schedule plateau follows [the first --metric, else "
      "loss]" },
    { "patience", "N", "stop after N evaluations in a row without a better one [never]" },
    { "no-best", NULL, "write no best.onnx" },
    { "time-limit", "TIME", "stop after this time (90s, 10m, 2h) and write all files; --resume continues" },
    { "resume", "DIR",
      "continue from the newest checkpoint of the run in DIR, and write there unless --out is given; auto: continue "
      "the run in --out, or begin it" },
    { "config", "FILE.json", "flags as {\"NAME\": value, ...}; those of the command line win" },
    { "eval-every", "N", "steps between evaluations [at the end of each epoch]" },
    { "eval-batches", "N", "batches of an evaluation; its samples lie evenly over --val [all]" },
    { "lr-find", NULL,
      "find a learning rate: train --steps steps (100) with a rate that rises from 1e-7 to 10, print where the loss "
      "falls fastest, and keep no weights" },
    { "sample-every", "N", "steps between texts that the language model writes and the run prints [never]" },
    { "sample-prompt", "TEXT", "prompt of these texts [a line's end]" },
    { "tensorboard", NULL,
      "write event files for TensorBoard into the run's folder: scalars, histograms of weights and gradients, images, "
      "the graph" },
    { "trace", "FILE.json", "time every node and write Chrome's trace format, for chrome://tracing or Perfetto" },
    { "profile", NULL,
      "print at the end where the time of a step goes, by operator and by layer, and what limits the run" },
    { "dry-run", NULL,
      "print what each device would execute and the memory it needs, and run nothing; no data is read" },
    { "verbose", NULL, "print also how the model is divided over devices, input by input" },
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
                                1,
                                NULL };

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

void run_has_begun(void) { has_begun = true; }

Status agree_on_end(Run *r, bool over)
{
    enum { SAVE = 1, TOO_LONG = 2, SIGNAL = 4 };
    const double now = seconds_now();
    int what = SIGNAL * (int)caught;

    tool_set_purpose(&r->world,
                     over ? "the end, when all files are written" : "whether the run goes on after step %" PRId64,
                     r->begun);
    if (!caught && !over && !r->world.rank) {
        if (r->save_seconds > 0 && now - r->saved_at >= r->save_seconds)
            what = SAVE;
        if (r->time_limit > 0 && now - r->progress.start >= r->time_limit)
            what = TOO_LONG;
    }
    TRY(world_most(&what, &r->world, what));
    r->signal = what / SIGNAL;
    r->save_due |= what == SAVE;
    r->too_long |= what == TOO_LONG;
    return ST_OK;
}

enum { RESULT_TEXT = METRICS_TEXT + 4400 };

/* Prints a line of the result. */
static void tell_result(Run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void tell_result(Run *r, const char *fmt, ...)
{
    char line[RESULT_TEXT];
    va_list ap;

    va_start(ap, fmt);
    text_vformat(line, sizeof line, fmt, ap);
    va_end(ap);
    progress_result(&r->progress, line);
}

/* What stands before the run's folder where a stopped run can go on; "" without a folder, whose path is "" then. */
static const char *resume_hint(const Run *r) { return r->has_dir ? "; go on by: dpexec resume " : ""; }

/* Prints why a run with evaluations has no best model. */
static void print_no_best(Run *r)
{
    if (r->at.best.counted < 0)
        tell_result(r, "no best model: the run ended before its first evaluation");
    else
        tell_result(r, "no best model: eval %s was never a finite number", r->facts.monitor.name);
}

/* Prints how many steps were trained, and the last loss. */
static void print_trained(Run *r)
{
    char loss[METRICS_TEXT + 64] = "", skipped[160] = "", metrics[METRICS_TEXT], took[32];

    if (r->eval_step >= 0)
        text_format(loss, sizeof loss, ": eval loss %.6g%s", r->last_eval.loss,
                    metrics_text(metrics, "eval", &r->last_eval.metrics));
    else if (!isnan(r->last_loss))
        text_format(loss, sizeof loss, ", loss %.6g", shown_number(r->last_loss));
    if (r->skipped)
        snprintf(skipped, sizeof skipped,
                 ", %" PRId64 " of %" PRId64 " step%s skipped: gradients overflowed at their loss scale", r->skipped,
                 r->step - r->first, r->step - r->first == 1 ? "" : "s");
    text_format(took, sizeof took, "%.1f s", seconds_now() - r->progress.start);
    tell_result(r, "trained %" PRId64 " step%s in %s%s%s", r->step, r->step == 1 ? "" : "s", took, loss, skipped);
}

/* Prints what the run has come to.  The last line is that of an early stop, else the path of the model. */
static Status print_result(Run *r)
{
    const BestSoFar *best = r->val.data && r->at.best.step >= 0 ? &r->at.best : NULL;
    char path[4096], text[4400] = "", line[METRICS_TEXT];

    for (int64_t i = 0; r->eval_step >= 0 && metrics_class_line(line, &r->last_eval.metrics, r->val.data, i); i++)
        progress_result(&r->progress, line);
    print_trained(r);
    if (r->too_long)
        tell_result(r, "stopped by --time-limit %s at step %" PRId64 " of %" PRId64 "%s%s",
                    args_value(r->args, "time-limit"), r->step, r->steps, resume_hint(r), r->dir.path);
    if (best)
        describe_best(text, r);
    if (best && !r->early)
        progress_result(&r->progress, text);
    if (r->val.data && !best)
        print_no_best(r);
    if (r->has_dir)
        tell_result(r, "model: %s", run_dir_file(&r->dir, "model.onnx", path));
    if (r->early && r->eval_every)
        tell_result(r, "stopped early at step %" PRId64 "%s%s", r->step, best ? "; " : "", text);
    else if (r->early)
        tell_result(r, "stopped early at epoch %" PRId64 "%s%s", r->at.epoch + (r->at.batch > 0), best ? "; " : "",
                    text);
    return fflush(stdout) ? FAIL(E_IO, "cannot write the result: %s", strerror(errno)) : ST_OK;
}

static Status finish_run(Run *r)
{
    char path[4096];

    warn_of_skipped(r);
    if (!r->too_long)
        TRY(judge_now(r, false));
    TRY(save(r));
    if (r->keeps)
        TRY((Status)dpx_trainer_export(r->trainer, r->has_dir ? run_dir_file(&r->dir, "model.onnx", path) : NULL));
    if (args_has(r->args, "trace") && !r->world.rank)
        TRY((Status)dpx_trainer_write_trace(r->trainer, args_value(r->args, "trace")));
    TRY(profile_finish(r));
    progress_end(&r->progress);
    TRY(agree_on_end(r, true)); /* the others end when rank 0 has written everything, or fail with it */
    if (!r->world.rank)
        TRY(print_result(r));
    return write_report(r, true);
}

const Command command_resume = { "resume",
                                 "RUN [changes]",
                                 "Continues the run in the folder RUN with the flags that it was given.",
                                 flags,
                                 ALL_OPTIONS,
                                 1,
                                 1,
                                 NULL };

/* Makes --resume auto the folder of --out, or takes it away where there is no checkpoint to continue from. */
static Status resolve_resume(const Args *a)
{
    const char *resume = args_value(a, "resume"), *out = args_value(a, "out");
    bool kept = false;

    if (!resume || strcmp(resume, "auto"))
        return ST_OK;
    if (!out || !strcmp(out, "none"))
        return FAIL(E_INVALID, "--resume auto needs --out DIR: the folder in which the run begins or goes on");
    if (!access(out, F_OK))
        TRY(run_dir_check_resume(&kept, out, false));
    args_replace(a, "resume", kept ? out : NULL);
    return ST_OK;
}

static Status train(Run *r)
{
    if (args_has(r->args, "dry-run")) {
        TRY(check_loss(r->args));
        TRY(take_augment(r->args));
        TRY(batch_check_auto(r->args));
        return print_plan(r->args, r->progress.quiet);
    }
    TRY(resolve_resume(r->args));
    TRY(open_run(r));
    r->keeps &= !r->finds;
    r->first = r->step;
    r->is_nll = !strcmp(dpx_options_get(r->args->options, "loss"), "nll");
    r->running = true;
    while (r->step < r->steps && run_goes_on(r))
        TRY(run_epoch(r));
    r->too_long &= r->step < r->steps && !r->early;
    if (!r->signal && !r->finds)
        return finish_run(r);
    if (!r->signal) {
        TRY(profile_finish(r));
        return lr_find_finish(r);
    }
    TRY(save(r));
    TRY(profile_finish(r));
    TRY(agree_on_end(r, true));
    if (!r->world.rank)
        progress_line(&r->progress, "stopped by a signal at step %" PRId64 "%s%s", r->step, resume_hint(r),
                      r->dir.path);
    return write_report(r, true);
}

int run_train(const Args *a)
{
    const struct sigaction catch = { .sa_handler = on_signal }, ignore = { .sa_handler = SIG_IGN };
    Run r = { .args = a,
              .at = { .best = BEST_NONE },
              .eval_step = -1,
              .logged = -1,
              .last_loss = NAN,
              .saved_step = -1,
              .dir = { .lock = -1, .best = -1 } };
    int code = EXIT_DONE;
    Status st;

    progress_start(&r.progress, args_has(a, "quiet"));
    r.progress.verbose = args_has(a, "verbose");
    progress_begin_log(&r.progress);
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
    if (st) {
        progress_log(&r.progress, "dpexec: %s", status_message());
        code = args_failed(a, "dpexec", st);
    }
    if (st && r.running)
        code = EXIT_FAILED;
    if (!st && !r.signal && lacks_loss(&r)) {
        warn_of_eval(&r, true);
        code = EXIT_FAILED;
    }
    close_run(&r, st ? code : 0);
    return !st && r.signal ? 128 + r.signal : code;
}
