/* constant: every step has the same rate. */
#include "graph/recipes/schedule.h"

static double constant_factor(const void *settings, SchedulePoint at)
{
    (void)settings, (void)at;
    return 1;
}

DEFINE_SCHEDULE(constant, .recipe = { .name = "constant", .help = "lr throughout" }, .factor = constant_factor);
