/* linear: a line from lr down to a fraction of it. */
#include "graph/recipes/schedule.h"

static double linear_factor(const void *settings, SchedulePoint at)
{
    const FinalRate *s = settings;

    return 1 - (1 - s->final) * schedule_done(at);
}

static const Setting args[] = { FINAL_RATE(FinalRate, final), { .name = NULL } };

DEFINE_SCHEDULE(linear,
                .recipe = { .name = "linear",
                            .form = "linear[:FINAL]",
                            .help = "a line down to FINAL [0] of lr at the last step",
                            .args = args,
                            RECIPE_SETTINGS(FinalRate) },
                .ends = true, .factor = linear_factor);
