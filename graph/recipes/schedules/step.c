/* step: the rate is multiplied by gamma every so many steps.  PyTorch's StepLR. */
#include <math.h>

#include "graph/recipes/schedule.h"

typedef struct {
    int64_t every;
    double gamma;
} Step;

static double step_factor(const void *settings, SchedulePoint at)
{
    const Step *s = settings;

    return pow(s->gamma, (double)(at.step / s->every));
}

static const Setting args[] = {
    { .name = "every", .metavar = "EVERY", .help = "steps", SETTING_OF(Step, every), .min = 1, .max = 1e15 },
    { .name = "gamma",
      .metavar = "GAMMA",
      .fallback = "0.1",
      .help = "the factor",
      SETTING_OF(Step, gamma),
      .min = 0,
      .above_min = true,
      .max = 1 },
    { .name = NULL },
};

DEFINE_SCHEDULE(step,
                .recipe = { .name = "step",
                            .form = "step:EVERY[:GAMMA]",
                            .help = "times GAMMA [0.1] every EVERY steps",
                            .args = args,
                            RECIPE_SETTINGS(Step) },
                .factor = step_factor);
