/* dpexec eval: loss and accuracy of a model on a data set. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/feed/digest.h"
#include "tools/evaluate.h"
#include "tools/feed/input_members.h"
#include "tools/progress.h"
#include "tools/training/run_dir.h"

static const Flag flags[] = {
    { "data", "SRC", "data to evaluate on" },
    SOURCE_FLAGS,
    { "class-weights", "FILE.npy", "weight of each class in the loss; balanced: those of the run" },
    SEQUENCE_FLAGS,
    { "at", "best|last|STEP", "which model of a run, where MODEL.onnx is its folder [best, if there is one]" },
    { "resume", "DIR", "take the state of the newest checkpoint of the run in DIR" },
    { "predictions", "DIR", "write the predictions for all samples to this folder, OUTPUT.npy each; needs no --loss" },
    { "verbose", NULL, "print also how the model is divided over devices, input by input" },
    { "quiet", NULL, "print nothing but warnings, errors and the result" },
    { NULL, NULL, NULL },
};

const Command command_eval = { "eval",
                               "MODEL.onnx --data SRC [--loss KIND] [--predictions DIR] [options]",
                               "Prints the loss and the metric over a whole data set, and writes predictions.",
                               flags,
                               OPTIONS_TO_RUN,
                               1,
                               1,
                               NULL };

static bool has_loss(const Args *a) { return strcmp(dpx_options_get(a->options, "loss"), "none") != 0; }

void find_eval_files(Findings *f, const Args *a)
{
    findings_add_file(f, "", a->positional[0]);
    if (args_has(a, "data"))
        findings_add(f, feed_check_source(a, "data"));
}

/* `begun`: the command line and the files were right. */
static Status eval_run(const Args *a, dpx_model **model, dpx_trainer **trainer, Feed *feed, Progress *progress,
                       bool *begun)
{
    Predictions *kept = NULL;
    LoaderOptions how;
    EvalResult e;
    int64_t batch_size;
    int workers;
    char path[4096], text[METRICS_TEXT];
    JsonWriter w = { .to = stdout, .compact = true };
    Findings missing = { 0 };

    find_eval_files(&missing, a);
    if (!args_has(a, "data"))
        findings_add(&missing, feed_check_source(a, "data"));
    TRY(findings_fail(&missing));
    if (!has_loss(a) && dpx_metric_at(a->options, 0).name)
        return FAIL(E_INVALID, "--metric %s needs --loss", metrics_names(text, a->options));
    if (args_has(a, "predictions"))
        TRY(args_join_outputs(a, "--predictions puts outputs together"));
    if (!has_loss(a) && !args_has(a, "predictions"))
        return FAIL(E_INVALID, "give --loss KIND to measure, or --predictions DIR to write predictions");
    if (!*dpx_options_get(a->options, "batch-size"))
        TRY((Status)dpx_options_set(a->options, "batch-size", "32"));
    batch_size = strtoll(dpx_options_get(a->options, "batch-size"), NULL, 10);
    TRY((Status)dpx_options_set(a->options, "evaluation", "true"));
    TRY(members_load(model, a, feed, "data", progress));
    TRY(feed_open(feed, a, "data", *model, SHARE_ALL, progress));
    TRY(feed_class_weights(a, feed, NULL));
    TRY(digest_check(feed->data, feed->source, NULL, SHARE_ALL));
    TRY(feed_check_order(feed, a, batch_size, false));
    if (!args_has(a, "resume")) /* the checkpoint has what the run derived from it */
        TRY(feed_target_shape(a, feed, batch_size));
    TRY(feed_input_shapes(a, feed, batch_size));
    TRY(feed_workers(&workers, a, feed, NULL));
    TRY((Status)dpx_trainer_create(trainer, *model, a->options, report_log, progress));
    if (args_has(a, "resume")) {
        snprintf(path, sizeof path, "%s/checkpoints", args_value(a, "resume"));
        TRY((Status)dpx_trainer_resume(*trainer, path, NULL));
    }
    how = (LoaderOptions){ .batch_size = batch_size, .workers = workers, .log = report_log, .user = progress };
    if (args_has(a, "predictions"))
        TRY(predictions_open(&kept, args_value(a, "predictions"), feed, progress));
    *begun = true;
    TRY(predictions_close(kept, evaluate(&e, *trainer, a->options, feed, how, false, kept, NULL, progress)));
    json_open(&w, NULL, '{');
    if (has_loss(a) && !feed->lacks)
        json_write_float(&w, "eval_loss", e.loss);
    metrics_write(&w, "eval", &e.metrics, feed->data);
    if (has_loss(a) && !feed->lacks && !isfinite(e.loss))
        progress_line(progress,
                      "dpexec: warning: the loss is %g (null in the JSON): look for NaN or infinite values in --data "
                      "or the model, or for data whose labels are all ignored",
                      e.loss);
    json_write_log(&w, "eval_log", e.metrics.log, e.metrics.n_log);
    json_write_int(&w, "samples", e.samples);
    json_close(&w);
    for (int64_t i = 0; !progress->quiet && metrics_class_line(text, &e.metrics, feed->data, i); i++)
        progress_line(progress, "%s", text);
    return ST_OK;
}

int run_eval(const Args *a)
{
    dpx_model *model = NULL;
    dpx_trainer *trainer = NULL;
    Feed feed = { 0 };
    Progress progress;
    bool begun = false;
    int code = EXIT_DONE;
    Status st;

    progress_start(&progress, args_has(a, "quiet"));
    progress.verbose = args_has(a, "verbose");
    st = eval_run(a, &model, &trainer, &feed, &progress, &begun);
    if (st)
        code = args_failed(a, "dpexec", st);
    feed_close(&feed);
    dpx_trainer_free(trainer);
    dpx_model_free(model);
    return st && begun ? EXIT_FAILED : code;
}
