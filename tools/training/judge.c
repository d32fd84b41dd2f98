/* Evaluations of a run: which is the best, and whether patience has come to its end. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/training/training.h"

bool lacks_loss(const Run *r) { return r->eval_step >= 0 && !isfinite(r->last_eval.loss); }

void warn_of_eval(Run *r, bool ends)
{
    if (r->world.rank || (r->warned_of_eval && !ends) || !lacks_loss(r))
        return;
    r->warned_of_eval = true;
    progress_line(&r->progress,
                  "dpexec: %sthe evaluation loss of step %" PRId64
                  " is %g: look in --val for NaN or infinite values or labels that are all ignored, or lower --lr",
                  ends ? "" : "warning: ", r->eval_step, shown_number(r->last_eval.loss));
}

Status evaluate_now(Run *r)
{
    const LoaderOptions how = { .batch_size = r->batch_size,
                                .most_batches = r->eval_batches,
                                .workers = r->workers,
                                .log = r->eval_step < 0 ? report_log : NULL, /* broken samples are told once */
                                .user = &r->progress };
    int64_t positions, computed, positions_now, computed_now;
    EvalResult e;
    char text[METRICS_TEXT];
    Mistakes *judged;
    Status st;

    if (!r->val.data || r->eval_step == r->step)
        return ST_OK;
    dpx_trainer_padding(r->trainer, &positions, &computed);
    progress_pause(&r->progress);
    TRY(report_begin_evaluation(&judged, r));
    st = evaluate(&e, r->trainer, r->args->options, &r->val, how, r->world.world, NULL, judged, &r->progress);
    TRY(report_end_evaluation(judged, r, st));
    progress_resume(&r->progress);
    dpx_trainer_padding(r->trainer, &positions_now, &computed_now);
    r->positions += positions_now - positions; /* the evaluation does not count in the epoch */
    r->computed += computed_now - computed;
    r->last_eval = e;
    r->eval_step = r->step;
    if (r->step < r->steps)
        warn_of_eval(r, false);
    if (!r->progress.quiet && !r->row.ends)
        progress_line(&r->progress, "step %" PRId64 ": eval loss %.5f%s", r->step, e.loss,
                      metrics_text(text, "eval", &e.metrics));
    return run_dir_log_eval(&r->dir, r->step, e.loss, &e.metrics, r->val.data);
}

/* The number that the monitor asks for; NaN: the evaluation has none. */
static double monitored(const Run *r)
{
    const EvalResult *e = &r->last_eval;

    return strcmp(r->facts.monitor.name, "loss") ? metrics_value(&e->metrics, r->facts.monitor.name) : e->loss;
}

/* Rank 0 decides for all processes, whose last digits may differ on other machines. */
Status judge_now(Run *r, bool within)
{
    enum { BETTER = 1, ENOUGH = 2 };
    int verdict = 0;
    const int64_t epoch = r->at.epoch + (r->at.batch > 0);

    TRY(evaluate_now(r));
    if (!r->val.data || r->at.best.counted == r->step)
        return ST_OK;
    if (best_take(&r->at.best, &r->facts.monitor, monitored(r), r->step, epoch))
        verdict = BETTER;
    if (r->patience && r->at.best.since >= r->patience)
        verdict |= ENOUGH;
    tool_set_purpose(&r->world, "whether step %" PRId64 " has the best model", r->step);
    TRY(world_most(&verdict, &r->world, r->world.rank ? 0 : verdict));
    r->early |= (verdict & ENOUGH) != 0;
    r->saved_step = -1; /* a checkpoint of this step lacks the verdict */
    if (!(verdict & BETTER) || !r->keeps || args_has(r->args, "no-best"))
        return ST_OK;
    if (!within)
        TRY(save(r));
    progress_pause(&r->progress);
    TRY(write_best(r));
    progress_resume(&r->progress);
    return ST_OK;
}

/* The metric that schedules follow. */
static double followed(const Run *r)
{
    return metrics_value(&r->last_eval.metrics, monitor_metric(&r->facts.monitor, r->args).name);
}

/* Schedules come first, because the checkpoint of a best model holds what they have seen. */
Status judge_and_observe(Run *r, bool within)
{
    TRY(evaluate_now(r));
    if (r->val.data)
        TRY((Status)dpx_trainer_observe(r->trainer, r->last_eval.loss, followed(r)));
    TRY(judge_now(r, within));
    return r->row.ends ? ST_OK : write_report(r, false);
}

void describe_best(char text[4400], const Run *r)
{
    const BestSoFar *b = &r->at.best;
    const bool of_loss = !strcmp(r->facts.monitor.name, "loss");
    char path[4096];
    int n = r->eval_every ? snprintf(text, 4400, "best step %" PRId64, b->step)
                          : snprintf(text, 4400, "best epoch %" PRId64, b->epoch);

    n += text_format(text + n, 4400 - (size_t)n, of_loss ? ": eval %s %.6g" : ": eval %s %.4f", r->facts.monitor.name,
                     b->value);
    if (r->has_dir && !args_has(r->args, "no-best"))
        snprintf(text + n, 4400 - (size_t)n, " -> %s", run_dir_file(&r->dir, "best.onnx", path));
}
