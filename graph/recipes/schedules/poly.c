/* poly: a power of the remaining share of the run, from lr down to a fraction of it.  PyTorch's PolynomialLR, with the
 * last rate of mmcv's. */
#include <math.h>

#include "graph/recipes/schedule.h"

typedef struct {
    double power, final;
} Poly;

static double poly_factor(const void *settings, SchedulePoint at)
{
    const Poly *s = settings;

    return s->final + (1 - s->final) * pow(1 - schedule_done(at), s->power);
}

static const Setting args[] = {
    { .name = "power",
      .metavar = "POWER",
      .fallback = "1",
      .help = "the power",
      SETTING_OF(Poly, power),
      .min = 0,
      .above_min = true,
      .max = 1e6 },
    FINAL_RATE(Poly, final),
    { .name = NULL },
};

DEFINE_SCHEDULE(
    poly,
    .recipe = { .name = "poly",
                .form = "poly[:POWER[:FINAL]]",
                .help = "the remaining share of the run to the power POWER [1], down to FINAL [0] of lr at the last "
                        "step",
                .args = args,
                RECIPE_SETTINGS(Poly) },
    .ends = true, .factor = poly_factor);
