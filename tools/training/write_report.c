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

/* Whether training may end with this evaluation: at the last step, or by --patience unless it is the best. */
static bool may_be_last(const Run *r)
{
    return r->step >= r->steps || (r->patience && r->at.best.since + 1 >= r->patience);
}

Status report_begin_evaluation(Mistakes **out, Run *r)
{
    int judges = r->has_dir && (may_be_last(r) || seconds_now() >= r->report_due);

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

static Status read_history(Run *r)
{
    if (r->history)
        return history_follow(r->history);
    TRY(run_events_open(r));
    return history_open(&r->history, r->dir.path, r->events ? run_events_scalar : NULL, r->events);
}

Status write_report(Run *r, bool end)
{
    const double now = seconds_now();
    char path[4096];

    if (!r->has_dir || (!end && now < r->report_due))
        return ST_OK;
    TRY(read_history(r));
    TRY(run_events_write(r, end));
    TRY(write_memory(r));
    TRY(page_write(run_dir_file(&r->dir, "report.html", path), &r->history, 1));
    TRY(history_write_csv(r->history, run_dir_file(&r->dir, "metrics.csv", path)));
    r->report_due = seconds_now() + 1 + LEAST_SHARE * (seconds_now() - now);
    return ST_OK;
}
