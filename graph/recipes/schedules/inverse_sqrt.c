/* inverse-sqrt: 1 / sqrt(1 + step / TIMESCALE), counted from the end of the warm-up (Vaswani and others, "Attention Is
 * All You Need", 2017).  The rates are those of get_inverse_sqrt_schedule of the package transformers. */
#include <math.h>

#include "graph/recipes/schedule.h"

static const double DEFAULT_TIMESCALE = 10000; /* without a warm-up */

typedef struct {
    int64_t timescale;
} InverseSqrt;

static double inverse_sqrt_factor(const void *settings, SchedulePoint at)
{
    const InverseSqrt *s = settings;
    const double scale = s->timescale ? (double)s->timescale : at.warmup ? (double)at.warmup : DEFAULT_TIMESCALE;

    return 1 / sqrt(((double)at.step + scale) / scale);
}

static const Setting args[] = {
    { .name = "timescale",
      .metavar = "TIMESCALE",
      .fallback = "0",
      .help = "after three times so many steps the rate is half; 0: --warmup-steps, or 10000 without a warm-up",
      SETTING_OF(InverseSqrt, timescale),
      .min = 0,
      .max = 1e15 },
    { .name = NULL },
};

DEFINE_SCHEDULE(inverse_sqrt,
                .recipe = { .name = "inverse-sqrt",
                            .form = "inverse-sqrt[:TIMESCALE]",
                            .help = "1 / sqrt(1 + STEP / TIMESCALE) of lr, STEP counted from the end of the warm-up; "
                                    "TIMESCALE is --warmup-steps, or 10000 without a warm-up, unless given",
                            .args = args,
                            RECIPE_SETTINGS(InverseSqrt) },
                .factor = inverse_sqrt_factor);
