/* The page and the table of a run, which are written anew as it goes on. */
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

Status write_report(Run *r, bool end)
{
    const double now = seconds_now();
    char path[4096];

    if (!r->has_dir || (!end && now < r->report_due))
        return ST_OK;
    TRY(r->history ? history_follow(r->history) : history_open(&r->history, r->dir.path));
    TRY(page_write(run_dir_file(&r->dir, "report.html", path), &r->history, 1));
    TRY(history_write_csv(r->history, run_dir_file(&r->dir, "metrics.csv", path)));
    r->report_due = seconds_now() + 1 + LEAST_SHARE * (seconds_now() - now);
    return ST_OK;
}
