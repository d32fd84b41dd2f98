/* exponential: every step the rate is multiplied by gamma.  PyTorch's ExponentialLR. */
#include <math.h>

#include "graph/recipes/schedule.h"

typedef struct {
    double gamma;
} Exponential;

static double exponential_factor(const void *settings, SchedulePoint at)
{
    return pow(((const Exponential *)settings)->gamma, (double)at.step);
}

static const Setting args[] = {
    { .name = "gamma",
      .metavar = "GAMMA",
      .help = "the factor",
      SETTING_OF(Exponential, gamma),
      .min = 0,
      .above_min = true,
      .max = 1 },
    { .name = NULL },
};

DEFINE_SCHEDULE(exponential,
                .recipe = { .name = "exponential",
                            .form = "exponential:GAMMA",
                            .help = "times GAMMA every step",
                            .args = args,
                            RECIPE_SETTINGS(Exponential) },
                .factor = exponential_factor);
