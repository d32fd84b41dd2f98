/* Preparation of dpexec train: reads counts, data and model, opens the folder and resumes. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/feed/input_members.h"
#include "tools/feed/model_metadata.h"
#include "tools/training/training.h"

enum { TRACE_EVENTS = 1 << 18 }; /* 8 MiB; later events are dropped */

/* E_INVALID when n times `each` batches, and some for rounding, do not fit an int64_t. */
static Status check_batches(int64_t n, const char *flag, int64_t each, const char *of)
{
    const int64_t most = INT64_MAX / 2 / each;

    return n > most ? FAIL(E_INVALID, "--%s %" PRId64 ": of %s%" PRId64 " batches each, expected at most %" PRId64,
                           flag, n, of, each, most)
                    : ST_OK;
}

/* The folder of runs without --out: "runs", or that which the environment names; "none": such runs write nothing. */
static const char *runs_folder(void)
{
    const char *folder = getenv("DPEXEC_RUNS");

    return folder && *folder ? folder : "runs";
}

/* Whether the run has a folder to write to. */
static bool keeps_files(const Args *a)
{
    const char *out = args_value(a, "out");

    return strcmp(out ? out : args_has(a, "resume") ? "" : runs_folder(), "none") != 0;
}

static Status read_counts(Run *r)
{
    const Args *a = r->args;
    int64_t per_epoch, groups, most;

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
    if (feed != &r->train) /* its batch size may follow from the data */
        TRY(feed_check_order(feed, r->args, r->batch_size, false));
    return digest_check(feed->data, feed->source, r->world.world, world_share_of(&r->world));
}

/* Opens --val, and notes which samples it has. */
static Status open_val(Run *r, Progress *log)
{
    char digest[DIGEST_TEXT];

    TRY(open_feed(r, &r->val, "val", log));
    tool_set_purpose(&r->world, "the digest of --val");
    TRY(digest_fields(digest, r->val.field, r->val.n, r->world.world, world_share_of(&r->world)));
    snprintf(r->facts.val, sizeof r->facts.val, "%s of %" PRId64, digest, r->val.data->samples);
    return ST_OK;
}

/* Lets the loader draw from all classes alike. */
static Status open_strata(Run *r, LoaderOptions *how)
{
    int64_t *number;

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
    char metrics[METRICS_TEXT];

    if (!*dpx_options_get(a->options, "batch-size"))
        TRY((Status)dpx_options_set(a->options, "batch-size", "32"));
    how.seed = strtoull(dpx_options_get(a->options, "seed"), NULL, 10);
    r->accumulate = strtoll(dpx_options_get(a->options, "accumulate"), NULL, 10);
    r->across_epochs = !strcmp(dpx_options_get(a->options, "accumulate-across-epochs"), "true");
    TRY(digest_file(r->facts.parameters, dpx_options_get(a->options, "parameters")));
    TRY(digest_file(r->facts.criterion, dpx_options_get(a->options, "criterion")));
    TRY(digest_file(r->facts.preprocess, dpx_options_get(a->options, "preprocess")));
    TRY(digest_file(r->facts.augment, dpx_options_get(a->options, "augment-graph")));
    TRY(open_feed(r, &r->train, "data", log));
    TRY(feed_class_weights(a, &r->train, r->facts.class_weights));
    TRY(feed_fitted_digest(&r->train, r->facts.fitted));
    if (batch_is_auto(a))
        TRY(batch_choose(r, log));
    how.batch_size = r->batch_size = strtoll(dpx_options_get(a->options, "batch-size"), NULL, 10);
    TRY(feed_check_order(&r->train, a, r->batch_size, !args_has(a, "no-shuffle")));
    if (!args_has(a, "resume")) /* a checkpoint holds what the run decided by it */
        TRY(feed_target_shape(a, &r->train, r->batch_size));
    TRY(feed_input_shapes(a, &r->train, r->batch_size));
    tool_set_purpose(&r->world, "the digest of --data");
    TRY(digest_fields(r->facts.data, r->train.field, r->train.n, r->world.world, world_share_of(&r->world)));
    if (args_has(a, "val") && !r->finds)
        TRY(open_val(r, log));
    else if (r->train.held && !r->finds)
        feed_take_held(&r->val, &r->train);
    else if (log && !r->finds && dpx_metric_at(a->options, 0).name)
        progress_line(log, "dpexec: warning: --metric %s is measured on training batches alone: --val is not given",
                      metrics_names(metrics, a->options));
    if (args_has(a, "balanced"))
        TRY(open_strata(r, &how));
    TRY(feed_workers(&r->workers, a, &r->train, r->world.world));
    how.workers = r->workers;
    TRY(loader_create(&r->loader, r->train.data, r->train.field, r->train.n, how));
    return read_counts(r);
}

/* Notes data and flags that must be equal in all processes; the library does so for options. */
static Status note_given(const Run *r)
{
    static const char *const same[] = { "epochs",           "steps",        "no-shuffle",      "drop-last",
                                        "eval-every",       "pad-multiple", "group-by-length", "monitor",
                                        "checkpoint-every", "patience",     "no-best",         "time-limit",
                                        "augment",          "balanced",     "val-split",       "eval-batches",
                                        "lr-find" };

    TRY(world_note_data(&r->world, "--data of digest", &r->train));
    if (r->val.data)
        TRY(world_note_data(&r->world, "--val of digest", &r->val));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        TRY(world_note_flag(&r->world, r->args, same[i]));
    if (r->world.world)
        TRY((Status)dpx_world_note(r->world.world, "--trace", args_has(r->args, "trace") ? "given" : "not given"));
    if (r->world.world)
        TRY((Status)dpx_world_note(r->world.world, "--profile", args_has(r->args, "profile") ? "given" : "not given"));
    if (r->world.world && strcmp(dpx_options_get(r->args->options, "shard"), "none")) /* all take part in checkpoints */
        TRY((Status)dpx_world_note(r->world.world, "--out", r->keeps ? "a folder" : "none"));
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
        progress_line(&r->progress,
                      "dpexec: warning: --resume %s: there is no checkpoint yet: the run begins at step 0", *from);
    *from = NULL;
    return ST_OK;
}

/* Lets a resumed run keep its --head, and split its batches as before, on any devices, unless the user says otherwise:
 * takes the option from a checkpoint.  The checkpoint that is loaded later must have the same value. */
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

/* Lets a resumed run keep the defaults of optimizers that it began with.  A note that does not name them is from before
 * each optimizer had its own. */
static Status keep_defaults(const Args *a)
{
    char *optimizer, *plain;
    Status st = ST_OK;

    if (!args_has(a, "resume") || args_has(a, "plain-defaults"))
        return ST_OK;
    optimizer = note_find(args_value(a, "resume"), "optimizer");
    plain = note_find(args_value(a, "resume"), "plain-defaults");
    if (optimizer && (!plain || !strcmp(plain, "true")) && !strcmp(dpx_options_get(a->options, "compat"), "none"))
        st = (Status)dpx_options_set(a->options, "plain-defaults", "true");
    free(optimizer);
    free(plain);
    return st;
}

/* Loads the model and the data, and creates the trainer. */
static Status load_all(Run *r)
{
    static const char *const kept[] = { "replicas", "split", "links" }, *const decided[] = { "split", "links" };
    const Args *a = r->args;
    int observes;

    TRY(world_agree_given(&r->world, a, "val")); /* data are read by all together */
    r->keeps = keeps_files(a);
    TRY(keep_defaults(a));
    TRY(check_flags(r));
    TRY(keep_option(a, "head")); /* data have as many classes */
    TRY(note_check_model(a));
    r->train.world = r->world.world;
    TRY(members_load(&r->model, a, &r->train, "data", r->world.rank ? NULL : &r->progress));
    TRY(open_data(r));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        TRY(keep_option(a, kept[i]));
    TRY(note_given(r));
    TRY((Status)dpx_trainer_create(&r->trainer, r->model, a->options, r->world.rank ? NULL : report_log, &r->progress));
    observes = dpx_trainer_observes(r->trainer);
    if ((observes & DPX_OBSERVES_METRIC) && !r->val.data)
        return FAIL(E_INVALID, "--lr-schedule plateau follows evaluations: give --val or --val-split");
    if ((observes & DPX_OBSERVES_METRIC) && !dpx_metric_at(a->options, 0).name)
        return FAIL(E_INVALID, "--lr-schedule plateau with mode max or min-metric follows a metric: give --metric");
    for (size_t i = 0; i < sizeof decided / sizeof *decided; i++) /* for args.json and checkpoints */
        if (*dpx_trainer_option(r->trainer, decided[i]))
            TRY((Status)dpx_options_set(a->options, decided[i], dpx_trainer_option(r->trainer, decided[i])));
    if (r->world.world)
        TRY(loader_share(r->loader, r->trainer));
    if (args_has(a, "trace")) /* all ranks: collectives are captured by all or by none */
        TRY((Status)dpx_trainer_trace(r->trainer, TRACE_EVENTS));
    TRY(profile_open(r));
    return open_sampler(r);
}

Status open_run(Run *r)
{
    const Args *a = r->args;
    struct stat x, y;
    const char *from = args_value(a, "resume"), *out = args_value(a, "out") ? args_value(a, "out") : from;
    char path[4096];
    int same = 0; /* 1: the run goes on in its folder */

    TRY(load_all(r));
    run_has_begun();
    r->saved_at = seconds_now();
    TRY(find_checkpoint(&from, r));
    if (r->keeps)
        TRY(run_dir_check_names(r->model));
    if (r->keeps && !r->world.rank) {
        same = out && from && !stat(out, &x) && !stat(from, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;

        TRY(out ? run_dir_open(&r->dir, out, same) : run_dir_open_new(&r->dir, runs_folder(), a->positional[0]));
        r->has_dir = true;
        if (!progress_log_to(&r->progress, run_dir_file(&r->dir, "log.txt", path)))
            return FAIL(E_IO, "%s: cannot write: %s", path, strerror(errno));
        if (*r->dir.aside)
            progress_line(
                &r->progress,
                "dpexec: warning: %s: the run that began here ended before its first checkpoint: its metrics are now "
                "%s",
                r->dir.path, r->dir.aside);
    }

    r->facts.args = a;
    r->facts.samples = r->train.data->samples;
    r->facts.batches = loader_batches(r->loader);
    r->facts.epochs_of_step = r->across_epochs ? r->accumulate : 1;
    r->facts.replicas = dpx_trainer_replicas(r->trainer);
    r->facts.isa = dpx_trainer_option(r->trainer, "isa");
    r->facts.observes = dpx_trainer_observes(r->trainer) != 0;
    if (!r->world.rank)
        tell_summary(r);
    if (from) { /* rank 0 alone looked */
        tool_set_purpose(&r->world, "whether the run goes on in its folder");
        TRY(world_most(&same, &r->world, same));
        TRY(resume(r, from, same));
    }
    TRY(metadata_write(r->model, r->train.fitted, a, *dpx_options_get(a->options, "export-preprocess")));
    r->early = r->patience && r->at.best.since >= r->patience; /* the run had stopped */
    if (r->has_dir) {                                          /* a refused --resume leaves the old run's as they are */
        TRY(run_dir_write_args(&r->dir, a));
        TRY(feed_write_fitted(&r->train, r->dir.path));
    }
    return from ? rewind_run(r, from, same) : ST_OK;
}

void close_run(Run *r, int failed)
{
    progress_end(&r->progress);
    loader_free(r->loader);
    feed_close(&r->val);
    feed_close(&r->train);
    strata_free(&r->strata);
    run_dir_close(&r->dir);
    history_free(r->history);
    free(r->find.step);
    free(r->batch_text);
    if (events_close(r->events))
        fprintf(stderr, "dpexec: warning: %s\n", status_message());
    text_generator_free(r->generator);
    tokenizer_free(r->tokenizer);
    progress_close_log(&r->progress);
    free(r->progress.early);
    dpx_trainer_free(r->trainer);
    dpx_model_free(r->model);
    world_close(&r->world, failed);
}
