/* plateau: the rate is multiplied by a factor when the loss or metric has not improved for a while.  PyTorch's
 * ReduceLROnPlateau. */
#include <math.h>

#include "graph/recipes/schedule.h"

static const double LEAST_CHANGE = 1e-8; /* of the rate; PyTorch's eps */

typedef enum { LOSS_FALLS, METRIC_RISES, METRIC_FALLS } Mode;

typedef struct {
    double factor, threshold, final;
    int64_t patience, cooldown;
    bool absolute;
    Mode mode;
} Plateau;

static double factor(const void *settings, SchedulePoint at)
{
    (void)settings;
    (void)at;
    return 1;
}

static ObservedKind observes(const void *settings)
{
    return ((const Plateau *)settings)->mode == LOSS_FALLS ? OBSERVES_LOSS : OBSERVES_METRIC;
}

static bool falls(const void *settings) { return ((const Plateau *)settings)->mode != METRIC_RISES; }

static bool is_better(const Plateau *p, double value, double best)
{
    const bool rises = p->mode == METRIC_RISES;
    const double by = rises ? p->threshold : -p->threshold, bound = p->absolute ? best + by : best * (1 + by);

    return rises ? value > bound : value < bound;
}

static void observe(const void *settings, ScheduleState *s, double lr, double value)
{
    const Plateau *p = settings;
    const double lower = fmax(s->factor * p->factor, p->final);

    if (isnan(s->best) ? value != (p->mode == METRIC_RISES ? -INFINITY : INFINITY) && !isnan(value)
                       : is_better(p, value, s->best)) {
        s->best = value;
        s->bad = 0;
    } else {
        s->bad++;
    }
    if (s->cooldown > 0) {
        s->cooldown--;
        s->bad = 0;
    }
    if (s->bad <= (double)p->patience)
        return;
    if (lr * (s->factor - lower) > LEAST_CHANGE)
        s->factor = lower;
    s->cooldown = (double)p->cooldown;
    s->bad = 0;
}

static Status plateau_check(const void *settings)
{
    const Plateau *p = settings;

    return p->absolute || p->threshold < 1
               ? ST_OK
               : FAIL(E_INVALID, "--lr-schedule plateau: a relative BY is less than 1, found %g", p->threshold);
}

static const Setting args[] = {
    { .name = "factor",
      .metavar = "FACTOR",
      .fallback = "0.1",
      .help = "the factor",
      SETTING_OF(Plateau, factor),
      .min = 0,
      .max = 0.9999999999 },
    { .name = "patience",
      .metavar = "PATIENCE",
      .fallback = "10",
      .help = "observations that may be no better",
      SETTING_OF(Plateau, patience),
      .min = 0,
      .max = SETTING_COUNT_MAX },
    { .name = "threshold",
      .metavar = "BY",
      .fallback = "0.0001",
      .help = "by how much better is better",
      SETTING_OF(Plateau, threshold),
      .min = 0,
      .max = SETTING_REAL_MAX },
    { .name = "kind",
      .metavar = "KIND",
      .fallback = "rel",
      .help = "rel: a share of the best; abs: a difference",
      SETTING_CHOICE_OF(Plateau, absolute, "rel|abs") },
    { .name = "cooldown",
      .metavar = "REST",
      .fallback = "0",
      .help = "observations after a change that do not count",
      SETTING_OF(Plateau, cooldown),
      .min = 0,
      .max = SETTING_COUNT_MAX },
    FINAL_RATE(Plateau, final),
    { .name = "mode",
      .metavar = "MODE",
      .fallback = "min",
      .help = "min: the loss should fall; max: the metric should rise; min-metric: it should fall",
      SETTING_CHOICE_OF(Plateau, mode, "min|max|min-metric") },
    { .name = NULL },
};

DEFINE_SCHEDULE(
    plateau,
    .recipe = { .name = "plateau",
                .form = "plateau[:FACTOR[:PATIENCE[:BY[:KIND[:REST[:FINAL[:MODE]]]]]]]",
                .help = "a factor, FACTOR [0.1], when more than PATIENCE [10] evaluations in a row were not better "
                        "by BY [0.0001] of the best (KIND rel) or by as much (abs); after that REST [0] "
                        "are not counted; at least FINAL [0] of lr; of the loss (MODE min), or of the "
                        "metric, which should rise (max) or fall (min-metric)",
                .args = args,
                RECIPE_SETTINGS(Plateau),
                .check = plateau_check },
    .factor = factor, .observes = observes, .falls = falls, .observe = observe);
