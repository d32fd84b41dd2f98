/* Checks the flags of a training run before model and data are read: numbers out of range, flags that contradict each
 * other, files that are missing.  One message lists all that is wrong. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/base/numtext.h"
#include "graph/base/outfile.h"
#include "tools/image/image_augment.h"
#include "tools/training/training.h"

/* Reads a time: "90s", "10m", "2h".  false: it is none. */
static bool read_time(double *seconds, const char *text)
{
    const size_t n = strlen(text);
    double number;

    if (n < 2 || !strchr("smh", text[n - 1]) || !text_to_float64(&number, text, n - 1) || !(number > 0) ||
        !(number <= 1e7))
        return false;
    *seconds = number * (text[n - 1] == 's' ? 1 : text[n - 1] == 'm' ? 60 : 3600);
    return true;
}

/* A whole number from 1 with `unit` behind it, or without one for '\0'; 0: the text is none. */
static int64_t read_units(const char *text, char unit)
{
    const size_t digits = strspn(text, "0123456789");

    return digits && digits < 19 && text[digits] == unit && (!unit || !text[digits + 1]) ? strtoll(text, NULL, 10) : 0;
}

static Status read_checkpoint_every(Run *r)
{
    const char *every = args_value(r->args, "checkpoint-every");

    if (every && !(r->save_steps = read_units(every, '\0')) && !(r->save_epochs = read_units(every, 'e')) &&
        !read_time(&r->save_seconds, every))
        return FAIL(E_INVALID,
                    "--checkpoint-every: expected steps (500), epochs (1e) or a time (90s, 10m, 2h), found '%s'",
                    every);
    return every && !r->keeps ? FAIL(E_INVALID, "--checkpoint-every needs a folder, but --out none writes nothing")
                              : ST_OK;
}

static Status read_keep(Run *r)
{
    const char *keep = args_value(r->args, "keep");
    const bool all = keep && !strcmp(keep, "all");

    r->keep = all ? 0 : keep ? read_units(keep, '\0') : 2;
    return keep && !all && !r->keep
               ? FAIL(E_INVALID, "--keep: expected a whole number from 1, or all, found '%s'", keep)
               : ST_OK;
}

static Status read_time_limit(Run *r)
{
    const char *limit = args_value(r->args, "time-limit");

    return limit && !read_time(&r->time_limit, limit)
               ? FAIL(E_INVALID, "--time-limit: expected a time (90s, 10m, 2h), found '%s'", limit)
               : ST_OK;
}

static Status read_monitor(Run *r)
{
    const Args *a = r->args;

    TRY(monitor_read(&r->facts.monitor, a, args_has(a, "val") || args_has(a, "val-split")));
    return monitor_lead_schedule(&r->facts.monitor, a);
}

/* Refuses the folders of --out and --resume that open_run would refuse when the training is planned. */
static Status check_folders(const Run *r)
{
    const char *from = args_value(r->args, "resume"), *out = args_value(r->args, "out");
    bool kept;

    if (r->world.rank)
        return ST_OK;
    if (from)
        return run_dir_check_resume(&kept, from, true);
    return r->keeps && out ? run_dir_check_new(out) : ST_OK;
}

/* Files that are read together with their flag are no part of this. */
void find_train_files(Findings *f, const Args *a)
{
    static const char *const of_options[] = { "preprocess", "augment-graph", "criterion" }, *const of_sources[] = {
        "data", "val"
    };
    const char *weights = args_value(a, "class-weights");

    findings_add_file(f, "", a->positional[0]);
    findings_add_file(f, "config", args_value(a, "config"));
    for (size_t i = 0; i < sizeof of_options / sizeof *of_options; i++)
        findings_add_file(f, of_options[i], dpx_options_get(a->options, of_options[i]));
    if (weights && strcmp(weights, "balanced") && access(weights, F_OK) && strchr(weights, ','))
        findings_add(
            f, FAIL(E_INVALID, "--class-weights %s: expected FILE.npy with a vector of weights, or balanced", weights));
    else if (weights && strcmp(weights, "balanced"))
        findings_add_file(f, "class-weights", weights);
    for (size_t i = 0; i < sizeof of_sources / sizeof *of_sources; i++)
        if (args_has(a, of_sources[i]))
            findings_add(f, feed_check_source(a, of_sources[i]));
}

bool follows_metric(const Args *a)
{
    const char *s = dpx_options_get(a->options, "lr-schedule");

    return !strncmp(s, "plateau", strlen("plateau")) && (strstr(s, ":max") || strstr(s, ":min-metric"));
}

/* Finds flags that contradict each other. */
static void find_contradictions(Findings *f, const Args *a)
{
    const bool evaluates = args_has(a, "val") || args_has(a, "val-split");

    if (args_has(a, "val") && args_has(a, "val-split"))
        findings_add(f, FAIL(E_INVALID, "--val and --val-split do not go together: leave one out"));
    if (args_has(a, "eval-batches") && !evaluates)
        findings_add(f, FAIL(E_INVALID, "--eval-batches needs data to evaluate on: give --val or --val-split"));
    if (args_has(a, "sample-prompt") && !args_has(a, "sample-every"))
        findings_add(f, FAIL(E_INVALID, "--sample-prompt needs --sample-every N"));
    if (args_has(a, "balanced") && args_has(a, "no-shuffle"))
        findings_add(f, FAIL(E_INVALID, "--balanced draws samples: leave out --no-shuffle"));
    if (follows_metric(a) && !evaluates)
        findings_add(f, FAIL(E_INVALID, "--lr-schedule plateau follows evaluations: give --val or --val-split"));
    if (follows_metric(a) && !strcmp(dpx_options_get(a->options, "metric"), "none"))
        findings_add(
            f, FAIL(E_INVALID, "--lr-schedule plateau with mode max or min-metric follows a metric: give --metric"));
}

Status take_augment(const Args *a)
{
    const char *list = args_value(a, "augment"), *graph;
    char *path;
    Augment unused;
    size_t n;
    Status st;

    if (!list)
        return ST_OK;
    TRY(augment_parse(&unused, list, "--augment"));
    if (!(graph = augment_graph(&n, list)))
        return ST_OK;
    if (!(path = strndup(graph, n)))
        return FAIL_NOMEM();
    st = *dpx_options_get(a->options, "augment-graph")
             ? FAIL(E_INVALID, "--augment %s and --augment-graph both name a graph: leave one out", list)
             : (Status)dpx_options_set(a->options, "augment-graph", path);
    free(path);
    return st;
}

Status check_loss(const Args *a)
{
    char forms[256];
    int n = 0;

    if (strcmp(dpx_options_get(a->options, "loss"), "none") != 0)
        return ST_OK;
    for (int i = 0; dpx_choice_at("loss", i).name && n < (int)sizeof forms; i++)
        n += snprintf(forms + n, sizeof forms - (size_t)n, "%s%s",
                      !i                                  ? ""
                      : dpx_choice_at("loss", i + 1).name ? ", "
                                                          : " or ",
                      dpx_choice_at("loss", i).form);
    return FAIL(E_INVALID, "--loss is missing: %s", forms);
}

/* Checks the options of the run together, with the number of steps as far as it is known without data. */
static Status check_options(const Run *r)
{
    const int64_t most = INT64_C(1000000000);

    TRY(args_count(r->args, "total-steps", r->steps && r->steps < most ? r->steps : most));
    return (Status)dpx_options_check(r->args->options);
}

Status check_flags(Run *r)
{
    const Args *a = r->args;
    const char *trace = args_value(a, "trace");
    Findings f = { 0 };

    findings_add(&f, check_loss(a));
    findings_add(&f, lr_find_check(r));
    findings_add(&f, batch_check_auto(a));
    if (!r->finds) {
        findings_add(&f, args_int(&r->epochs, a, "epochs", args_has(a, "steps") ? 0 : 1, 1, 1000000000));
        findings_add(&f, args_int(&r->steps, a, "steps", 0, 1, INT64_MAX / 2));
    }
    findings_add(&f, args_int(&r->eval_every, a, "eval-every", 0, 1, INT64_MAX / 2));
    findings_add(&f, args_int(&r->eval_batches, a, "eval-batches", 0, 1, INT64_MAX / 2));
    findings_add(&f, args_int(&r->sample_every, a, "sample-every", 0, 1, INT64_MAX / 2));
    findings_add(&f, args_int(&r->patience, a, "patience", 0, 1, 1000000000));
    findings_add(&f, read_checkpoint_every(r));
    findings_add(&f, read_time_limit(r));
    findings_add(&f, read_keep(r));
    findings_add(&f, read_monitor(r));
    find_contradictions(&f, a);
    findings_add(&f, feed_check_split(a));
    findings_add(&f, take_augment(a));
    findings_add(&f, check_options(r));
    findings_add(&f, check_folders(r));
    if (trace && !r->world.rank && outfile_check(trace))
        findings_add(&f, FAIL(E_IO, "--trace %s", status_message()));
    if (r->sample_every && r->world.world)
        findings_add(&f, FAIL(E_INVALID, "--sample-every needs a run of one process"));
    if (args_has(a, "tensorboard") && !r->keeps)
        findings_add(&f, FAIL(E_INVALID, "--tensorboard needs a folder, but --out none writes nothing"));
    find_train_files(&f, a);
    if (!args_has(a, "data"))
        findings_add(&f, feed_check_source(a, "data"));
    return findings_fail(&f);
}
