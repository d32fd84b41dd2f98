/* The page and the table of a run, which are written anew as it goes on. */
#include <stdlib.h>
#include <string.h>

#include "tools/report/page.h"
#include "tools/training/training.h"

/* Writing takes at most this share of the time, and comes at most once a second. */
enum { LEAST_SHARE = 50 };

Status report_begin_evaluation(Mistakes **out, const Run *r)
{
    *out = NULL;
    return r->has_dir && (r->step >= r->steps || seconds_now() >= r->report_due)
               ? mistakes_open(out, &r->val, r->args->options)
               : ST_OK;
}

Status report_end_evaluation(Mistakes *m, const Run *r, Status st)
{
    char path[4096];

    if (m && !st)
        st = mistakes_write(m, run_dir_file(&r->dir, "evaluation.json", path), r->step);
    mistakes_free(m);
    return st;
}

/* A HistorySink: "train_loss" becomes "train/loss", as TensorBoard groups tags. */
static Status log_event(void *user, int64_t step, const char *key, double x)
{
    const char *of = !strncmp(key, "train_", 6) ? "train/" : !strncmp(key, "eval_", 5) ? "eval/" : "";
    char tag[256];

    snprintf(tag, sizeof tag, "%s%s", *of ? of : !strcmp(key, "loss") ? "step/" : "", key + strlen(of));
    return events_scalar(user, step, tag, x);
}

/* Logs the distribution of each parameter that this process holds whole. */
static Status log_weights(Run *r)
{
    const bool sharded = strcmp(dpx_options_get(r->args->options, "shard"), "none") != 0;

    for (int i = 0; i < dpx_trainer_state_count(r->trainer) && !sharded; i++) {
        size_t n = 1;
        dpx_info info;
        dpx_tensor t;
        char tag[256];
        Status st;

        TRY((Status)dpx_trainer_state_info(r->trainer, i, &info));
        if (!info.trainable || (info.dtype != DPX_FLOAT32 && info.dtype != DPX_FLOAT64))
            continue;
        t = (dpx_tensor){ .name = info.name, .dtype = info.dtype, .rank = info.rank };
        memcpy(t.dim, info.dim, sizeof t.dim);
        for (int k = 0; k < info.rank; k++)
            n *= (size_t)info.dim[k];
        if (!(t.data = malloc(n * dpx_dtype_size(t.dtype) + 1)))
            return FAIL_NOMEM();
        snprintf(tag, sizeof tag, "weights/%.240s", info.name);
        st = (Status)dpx_trainer_get_state(r->trainer, info.name, &t);
        st = st ? st : events_histogram(r->events, r->step, tag, &t);
        free(t.data);
        TRY(st);
    }
    return ST_OK;
}

static Status read_history(Run *r)
{
    char path[4096];

    if (r->history)
        return history_follow(r->history);
    if (args_has(r->args, "tensorboard"))
        TRY(events_open(&r->events, run_dir_file(&r->dir, "tensorboard", path)));
    return history_open(&r->history, r->dir.path, r->events ? log_event : NULL, r->events);
}

Status write_report(Run *r, bool end)
{
    const double now = seconds_now();
    char path[4096];

    if (!r->has_dir || (!end && now < r->report_due))
        return ST_OK;
    TRY(read_history(r));
    if (r->events && (end || r->eval_step == r->step))
        TRY(log_weights(r));
    if (r->events)
        TRY(events_flush(r->events));
    TRY(page_write(run_dir_file(&r->dir, "report.html", path), &r->history, 1));
    TRY(history_write_csv(r->history, run_dir_file(&r->dir, "metrics.csv", path)));
    r->report_due = seconds_now() + 1 + LEAST_SHARE * (seconds_now() - now);
    return ST_OK;
}
