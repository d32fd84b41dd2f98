/* restarts: half a cosine from lr down to a fraction of it, again and again, each `times` as long as the one before
 * (Loshchilov and Hutter, "SGDR", 2017; PyTorch's CosineAnnealingWarmRestarts). */
#include <math.h>

#include "graph/recipes/schedule.h"

typedef struct {
    int64_t first, times;
    double final;
} Restarts;

static double restarts_factor(const void *settings, SchedulePoint at)
{
    const Restarts *s = settings;
    int64_t length = s->first, step = at.step;

    if (s->times == 1)
        step %= length;
    while (step >= length) {
        step -= length;
        if (__builtin_mul_overflow(length, s->times, &length))
            length = INT64_MAX;
    }
    return s->final + (1 - s->final) * 0.5 * (1 + cos(M_PI * (double)step / (double)length));
}

static const Setting args[] = {
    { .name = "first", .metavar = "FIRST", .help = "steps", SETTING_OF(Restarts, first), .min = 1, .max = 1e15 },
    { .name = "times",
      .metavar = "TIMES",
      .fallback = "1",
      .help = "length of a cosine divided by that of the one before",
      SETTING_OF(Restarts, times),
      .min = 1,
      .max = 1e6 },
    FINAL_RATE(Restarts, final),
    { .name = NULL },
};

DEFINE_SCHEDULE(
    restarts,
    .recipe = { .name = "restarts",
                .form = "restarts:FIRST[:TIMES[:FINAL]]",
                .help = "half a cosine down to FINAL [0] of lr over FIRST steps, again and again, each TIMES "
                        "[1] as long as the one before",
                .args = args,
                RECIPE_SETTINGS(Restarts) },
    .factor = restarts_factor);
