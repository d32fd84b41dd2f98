/* range-test: the rate rises from a small fraction of lr to lr, by the same factor every step (Smith, "Cyclical
 * Learning Rates for Training Neural Networks", 2017).  --lr-find uses it. */
#include <math.h>

#include "graph/recipes/schedule.h"

typedef struct {
    double first;
} RangeTest;

static double range_test_factor(const void *settings, SchedulePoint at)
{
    const double first = ((const RangeTest *)settings)->first;

    return at.step + 1 < at.span ? pow(first, 1 - (double)at.step / (double)(at.span - 1)) : 1;
}

static const Setting args[] = {
    { .name = "first",
      .metavar = "FIRST",
      .fallback = "1e-8",
      .help = "the first rate, as a fraction of lr",
      SETTING_OF(RangeTest, first),
      .min = 0,
      .above_min = true,
      .max = 1 },
    { .name = NULL },
};

DEFINE_SCHEDULE(range_test,
                .recipe = { .name = "range-test",
                            .form = "range-test[:FIRST]",
                            .help = "from FIRST [1e-8] of lr up to lr at the last step, by the same factor every step",
                            .args = args,
                            RECIPE_SETTINGS(RangeTest) },
                .ends = true, .factor = range_test_factor);
