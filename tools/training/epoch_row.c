/* The line that a run prints at the end of an epoch: losses, metrics, samples a second, time, and whether the model is
 * the best so far. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/training/training.h"

enum { MOST_CELLS = 6 + 2 * DPX_MAX_METRICS };
/* Ranks of columns: where a terminal is narrow, those of greater ranks go first. */
enum { RANK_EPOCH, RANK_MONITOR, RANK_LOSS, RANK_EVAL_LOSS, RANK_EVAL_METRIC, RANK_TIME, RANK_METRIC, RANK_RATE };

void begin_epoch(Run *r)
{
    r->row = (EpochRow){ .from = r->step };
    progress_epoch(&r->progress, r->at.epoch + 1, r->epochs, r->step);
}

/* Whether the run was evaluated in this epoch. */
static bool was_evaluated(const Run *r) { return r->eval_step > r->row.from; }

/* The mean loss of the epoch's steps, as the trainer measured it, else of those that this process ran. */
static double train_loss(const Run *r)
{
    const EpochRow *e = &r->row;

    return shown_number(e->measured ? e->trained.loss : r->train.adds_up ? e->loss_sum : e->loss_sum / e->loss_weight);
}

static bool is_best(const Run *r) { return was_evaluated(r) && r->at.best.step == r->eval_step; }

static void print_line(Run *r, double seconds)
{
    char trained[METRICS_TEXT] = "", evaluated[METRICS_TEXT] = "", loss[48] = "", time[32], line[3 * METRICS_TEXT];

    if (r->row.measured)
        metrics_text(trained, "train", &r->row.trained);
    if (was_evaluated(r)) {
        text_format(loss, sizeof loss, "; eval loss %.5f", r->last_eval.loss);
        metrics_text(evaluated, "eval", &r->last_eval.metrics);
    }
    text_format(line, sizeof line, "epoch %" PRId64 "/%" PRId64 ": train loss %.5f%s%s%s; %.0f samples/s, %s%s",
                r->at.epoch, r->epochs, train_loss(r), trained, loss, evaluated, progress_rate(&r->progress),
                progress_time(time, seconds), is_best(r) ? "; best" : "");
    if (r->progress.terminal)
        progress_log(&r->progress, "%s", line);
    else
        progress_line(&r->progress, "%s", line);
}

/* ---- the table of a terminal ---- */

typedef struct {
    ProgressCell cell[MOST_CELLS];
    int n;
} Cells;

static ProgressCell *add_cell(Cells *c, int rank, const char *of, const char *name)
{
    ProgressCell *cell = &c->cell[c->n++];

    snprintf(cell->name, sizeof cell->name, "%s%s%s", of, *of ? " " : "", name);
    cell->rank = rank;
    return cell;
}

/* Adds a number with four decimals, or four digits where these tell nothing or are too many; "-": there is none. */
static void add_number(Cells *c, int rank, const char *of, const char *name, bool has, double x)
{
    const bool plain = fabs(x) < 1e5 && (fabs(x) >= 1e-3 || !(fabs(x) > 0));
    ProgressCell *cell = add_cell(c, rank, of, name);

    text_format(cell->text, sizeof cell->text, !has ? "-" : plain ? "%.4f" : "%.3e", shown_number(x));
}

/* Adds a number for each metric of the options; m NULL: they are not measured. */
static void add_metrics(Cells *c, int rank, const char *of, const Metrics *m, const Run *r)
{
    dpx_metric_info info;

    for (int i = 0; (info = dpx_metric_at(r->args->options, i)).name; i++) {
        const bool monitored = *of && !strcmp(info.name, r->facts.monitor.name);

        if (info.number)
            add_number(c, monitored ? RANK_MONITOR : rank, of, info.name, m != NULL,
                       m ? metrics_value(m, info.name) : 0);
    }
}

static void print_row(Run *r, double seconds)
{
    char digits[24];
    const int width = snprintf(digits, sizeof digits, "%" PRId64, r->epochs);
    const bool evaluated = was_evaluated(r);
    Cells c = { .n = 0 };

    snprintf(add_cell(&c, RANK_EPOCH, "", "epoch")->text, sizeof c.cell->text, "%*" PRId64 "/%" PRId64, width,
             r->at.epoch, r->epochs);
    add_number(&c, RANK_LOSS, "", "loss", true, train_loss(r));
    add_metrics(&c, RANK_METRIC, "", r->row.measured ? &r->row.trained : NULL, r);
    if (r->val.data) {
        add_number(&c, RANK_EVAL_LOSS, "eval", "loss", evaluated, r->last_eval.loss);
        add_metrics(&c, RANK_EVAL_METRIC, "eval", evaluated ? &r->last_eval.metrics : NULL, r);
    }
    text_format(add_cell(&c, RANK_RATE, "", "samples/s")->text, sizeof c.cell->text, "%.0f",
                progress_rate(&r->progress));
    progress_time(add_cell(&c, RANK_TIME, "", "time")->text, seconds);
    progress_row(&r->progress, c.cell, c.n, is_best(r));
}

void tell_epoch(Run *r)
{
    const double seconds = seconds_now() - r->progress.epoch_start;

    if (r->progress.quiet)
        return;
    if (r->progress.terminal)
        print_row(r, seconds);
    print_line(r, seconds);
}
