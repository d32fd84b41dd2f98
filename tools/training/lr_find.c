/* --lr-find: a range test of learning rates, as Lightning's and fastai's: up to --steps steps whose rate rises from
 * 1e-7 to 10.  The loss, smoothed, falls fastest over the logarithm of the rate where a run should begin.  The test
 * ends early when the loss has diverged.  Nothing of the training is kept. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/json_writer.h"
#include "graph/base/numtext.h"
#include "graph/base/outfile.h"
#include "tools/training/training.h"

enum { MOST_STEPS = 1000000, LEAST_STEPS = 20 };

#define HIGHEST "10"
#define SCHEDULE "range-test:1e-8"

static const double KEEP = 0.98;  /* of the running mean of losses, at each step */
static const double DIVERGED = 4; /* a mean of so many times the least ends the test */

/* Groups whose rate does not follow --lr. */
static Status check_groups(const Args *a)
{
    const char *groups = dpx_options_get(a->options, "group");

    return strstr(groups, "lr=") || strstr(groups, "schedule=")
               ? FAIL(E_INVALID, "--lr-find finds one rate: leave out lr and schedule of --group")
               : ST_OK;
}

Status lr_find_check(Run *r)
{
    static const char *const idle[] = {
        "resume", "epochs", "patience", "time-limit", "checkpoint-every", "sample-every"
    };
    const Args *a = r->args;
    Findings f = { 0 };

    r->finds = args_has(a, "lr-find");
    if (!r->finds)
        return ST_OK;
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (args_has(a, idle[i]))
            findings_add(&f, FAIL(E_INVALID, "--lr-find tests rates on %s: leave out --%s",
                                  strcmp(idle[i], "resume") ? "a number of --steps, and keeps nothing"
                                                            : "the weights of a model file",
                                  idle[i]));
    findings_add(&f, check_groups(a));
    findings_add(&f, args_int(&r->steps, a, "steps", 100, LEAST_STEPS, MOST_STEPS));
    TRY(findings_fail(&f));
    TRY((Status)dpx_options_set(a->options, "lr", HIGHEST));
    TRY((Status)dpx_options_set(a->options, "warmup-steps", "0"));
    TRY((Status)dpx_options_set(a->options, "lr-schedule", SCHEDULE));
    return (r->find.step = calloc((size_t)r->steps, sizeof *r->find.step)) ? ST_OK : FAIL_NOMEM();
}

/* Rank 0 decides for all processes, whose last digits may differ on other machines. */
Status lr_find_take(Run *r, const dpx_result *result)
{
    LrFind *f = &r->find;
    LrFindStep *s = &f->step[f->n++];
    int over;

    f->mean = KEEP * f->mean + (1 - KEEP) * result->loss;
    *s = (LrFindStep){ result->lr, result->loss, f->mean / (1 - pow(KEEP, (double)f->n)) };
    if (f->n == 1 || s->mean < f->least)
        f->least = s->mean;
    over = !isfinite(s->mean) || (f->n > 2 && s->mean > DIVERGED * f->least);
    tool_set_purpose(&r->world, "whether the loss has diverged at step %" PRId64, r->step);
    TRY(world_most(&over, &r->world, r->world.rank ? 0 : over));
    f->diverged |= over;
    r->early |= f->diverged;
    return ST_OK;
}

/* {"suggestion": rate or null, "lr": [...], "loss": [...], "mean": [...]} */
static Status write_file(const Run *r, int64_t best)
{
    const LrFind *f = &r->find;
    JsonWriter w = { .lines = 1 };
    OutFile *file;
    char path[4096];

    TRY(outfile_open(&file, run_dir_file(&r->dir, "lr_find.json", path)));
    w.to = outfile_stream(file);
    json_open(&w, NULL, '{');
    json_write_float(&w, "suggestion", best < 0 ? NAN : f->step[best].lr);
    json_open(&w, "lr", '[');
    for (int64_t i = 0; i < f->n; i++)
        json_write_float(&w, NULL, f->step[i].lr);
    json_close(&w);
    json_open(&w, "loss", '[');
    for (int64_t i = 0; i < f->n; i++)
        json_write_float(&w, NULL, f->step[i].loss);
    json_close(&w);
    json_open(&w, "mean", '[');
    for (int64_t i = 0; i < f->n; i++)
        json_write_float(&w, NULL, f->step[i].mean);
    json_close(&w);
    json_close(&w);
    return outfile_close(file, ST_OK);
}

Status lr_find_finish(Run *r)
{
    const LrFind *f = &r->find;
    const int64_t best = steepest_fall(f->step, f->n);
    char path[4096], line[4200];

    if (r->has_dir)
        TRY(write_file(r, best));
    progress_end(&r->progress);
    TRY(agree_on_end(r, true));
    TRY(write_report(r, true));
    if (r->world.rank)
        return ST_OK;
    if (f->diverged)
        text_format(line, sizeof line, "lr-find: the loss diverged at a rate of %.2g, after %" PRId64 " steps",
                    f->step[f->n - 1].lr, f->n);
    else
        text_format(line, sizeof line, "lr-find: %" PRId64 " steps, up to a rate of %.2g", f->n, f->step[f->n - 1].lr);
    progress_result(&r->progress, line);
    if (r->has_dir) {
        text_format(line, sizeof line, "curve: %s", run_dir_file(&r->dir, "report.html", path));
        progress_result(&r->progress, line);
    }
    if (best < 0)
        return FAIL(E_INVALID, "--lr-find: the loss falls at no rate: give more --steps, or other data");
    text_format(line, sizeof line, "the loss falls fastest at a rate of %.3g: try --lr %.2g", f->step[best].lr,
                f->step[best].lr);
    progress_result(&r->progress, line);
    return ST_OK;
}
