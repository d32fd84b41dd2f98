/* The page and the table of a run, which are written anew as it goes on. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "graph/base/jsontext.h"
#include "graph/base/outfile.h"
#include "tools/report/page.h"
#include "tools/training/training.h"

/* Writing takes at most this share of the time, and comes at most once a second. */
enum { LEAST_SHARE = 50 };

Status report_begin_evaluation(Mistakes **out, Run *r)
{
    int judges = r->has_dir && (r->step >= r->steps || seconds_now() >= r->report_due);

    *out = NULL;
    if (!r->keeps)
        return ST_OK;
    tool_set_purpose(&r->world, "whether the page is due at step %" PRId64, r->step);
    TRY(world_most(&judges, &r->world, judges));
    return judges ? mistakes_open(out, &r->val, r->args->options, r->world.rank) : ST_OK;
}

/* Adds what the other processes have found; texts[size] are those of all. */
static Status join_all(json_t *found, const char *texts, const size_t *size, int n)
{
    const char *at = texts + size[0];
    Status st = ST_OK;

    for (int k = 1; k < n && !st; at += size[k++]) {
        json_t *more = json_loadb(at, size[k], 0, NULL);

        st = more ? mistakes_join(found, more) : FAIL(E_IO, "rank %d: its worst samples are no JSON", k);
        json_decref(more);
    }
    return st;
}

static Status write_text(const char *path, char *text)
{
    OutFile *file;
    Status st = text ? outfile_open(&file, path) : FAIL_NOMEM();

    if (!st) {
        fputs(text, outfile_stream(file));
        st = outfile_close(file, ST_OK);
    }
    free(text);
    return st;
}

/* Gathers what all processes have found on rank 0, which writes it. */
static Status write_found(json_t *found, const Run *r)
{
    char path[4096], *text = json_text(found, JSON_COMPACT);
    size_t *size = malloc((size_t)r->world.size * sizeof *size);
    void *all = NULL;
    Status st = text && size ? ST_OK : FAIL_NOMEM();

    tool_set_purpose(&r->world, "the worst samples of step %" PRId64, r->step);
    st = st ? st : world_texts(&all, size, &r->world, text, strlen(text));
    if (!st && all)
        st = join_all(found, all, size, r->world.size);
    free(all);
    free(size);
    free(text);
    if (st || !r->has_dir)
        return st;
    return write_text(run_dir_file(&r->dir, "evaluation.json", path), json_text(found, JSON_COMPACT));
}

Status report_end_evaluation(Mistakes *m, const Run *r, Status st)
{
    json_t *found = NULL;

    if (m && !st)
        st = mistakes_found(&found, m, r->step);
    if (found)
        st = write_found(found, r);
    json_decref(found);
    mistakes_free(m);
    return st;
}

/* Writes how much memory the run takes: {"step": bytes of the fullest device, by plan, "process": bytes that this
 * process had at most}. */
static Status write_memory(const Run *r)
{
    const int64_t step = dpx_trainer_memory(r->trainer);
    struct rusage usage;
    json_t *j;
    char path[4096];
    Status st;

    if (getrusage(RUSAGE_SELF, &usage))
        usage.ru_maxrss = 0;
    j = json_pack("{s:I, s:I}", "step", (json_int_t)step, "process", (json_int_t)usage.ru_maxrss * 1024);
    st = write_text(run_dir_file(&r->dir, "memory.json", path), json_text(j, JSON_COMPACT));
    json_decref(j);
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
    TRY(write_memory(r));
    TRY(page_write(run_dir_file(&r->dir, "report.html", path), &r->history, 1));
    TRY(history_write_csv(r->history, run_dir_file(&r->dir, "metrics.csv", path)));
    r->report_due = seconds_now() + 1 + LEAST_SHARE * (seconds_now() - now);
    return ST_OK;
}
