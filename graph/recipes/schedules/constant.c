/* constant: every step has the same rate. */
#include "graph/recipes/schedule.h"

static double constant_factor(const void *settings, int64_t step, int64_t span)
{
    (void)settings, (void)step, (void)span;
    return 1;
}

DEFINE_SCHEDULE(constant, .recipe = { .name = "constant", .help = "lr throughout" }, .factor = constant_factor);
