/* linear: a line from lr down to a fraction of it. */
#include "graph/recipes/schedule.h"

typedef struct {
    double final;
} Linear;

static double linear_factor(const void *settings, int64_t step, int64_t span)
{
    const Linear *s = settings;

    return 1 - (1 - s->final) * schedule_done(step, span);
}

static const Setting args[] = { FINAL_RATE(Linear, final), { .name = NULL } };

DEFINE_SCHEDULE(linear,
                .recipe = { .name = "linear",
                            .form = "linear[:FINAL]",
                            .help = "a line down to FINAL [0] of lr at the last step",
                            .args = args,
                            RECIPE_SETTINGS(Linear) },
                .ends = true, .factor = linear_factor);
