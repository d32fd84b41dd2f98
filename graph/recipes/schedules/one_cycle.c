/* one-cycle: half a cosine up from lr / DIV to lr, then half a cosine down to lr / DIV / FINAL (Smith and Topin,
 * "Super-Convergence", 2018).  The rates are those of PyTorch's OneCycleLR.  --lr is the highest rate; momentum does
 * not change. */
#include <math.h>

#include "graph/recipes/schedule.h"

typedef struct {
    double up, div, final;
} OneCycle;

static double between(double from, double to, double done) { return to + (from - to) / 2 * (1 + cos(M_PI * done)); }

static double one_cycle_factor(const void *settings, SchedulePoint at)
{
    const OneCycle *s = settings;
    const double first = 1 / s->div, last = first / s->final, end = (double)at.span - 1,
                 step = at.step < at.span ? (double)at.step : end, top = s->up * (double)at.span - 1;

    if (at.span < 1)
        return last;
    if (step <= top)
        return top > 0 ? between(first, 1, step / top) : 1;
    return between(1, last, end > top ? (step - top) / (end - top) : 1);
}

#define ABOVE_1(word, field, meaning, value)                                                                        \
    {                                                                                                               \
        .name = #field, .metavar = word, .fallback = value, .help = meaning, SETTING_OF(OneCycle, field), .min = 1, \
        .max = SETTING_REAL_MAX                                                                                     \
    }

static const Setting args[] = {
    { .name = "up",
      .metavar = "UP",
      .fallback = "0.3",
      .help = "the share of steps on the way up",
      SETTING_OF(OneCycle, up),
      .min = 0,
      .max = 1 },
    ABOVE_1("DIV", div, "lr divided by the first rate", "25"),
    ABOVE_1("FINAL", final, "the first rate divided by the last", "10000"),
    { .name = NULL },
};

DEFINE_SCHEDULE(
    one_cycle,
    .recipe = { .name = "one-cycle",
                .form = "one-cycle[:UP[:DIV[:FINAL]]]",
                .help = "from lr / DIV [25] up to lr in the share UP [0.3] of steps, then down to lr / DIV / "
                        "FINAL [10000]",
                .args = args,
                RECIPE_SETTINGS(OneCycle) },
    .ends = true, .factor = one_cycle_factor);
