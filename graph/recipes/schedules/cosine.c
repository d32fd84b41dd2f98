/* cosine: half a period of a cosine from lr down to a fraction of it. */
#include <math.h>

#include "graph/recipes/schedule.h"

static double cosine_factor(const void *settings, SchedulePoint at)
{
    const FinalRate *s = settings;

    return s->final + (1 - s->final) * 0.5 * (1 + cos(M_PI * schedule_done(at)));
}

static const Setting args[] = { FINAL_RATE(FinalRate, final), { .name = NULL } };

DEFINE_SCHEDULE(cosine,
                .recipe = { .name = "cosine",
                            .form = "cosine[:FINAL]",
                            .help = "half a cosine down to FINAL [0] of lr at the last step",
                            .args = args,
                            RECIPE_SETTINGS(FinalRate) },
                .ends = true, .factor = cosine_factor);
