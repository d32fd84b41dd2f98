/* multi-step: the rate is multiplied by gamma at each of the given steps.  PyTorch's MultiStepLR. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "graph/recipes/schedule.h"

typedef struct {
    const char *at; /* "30,60,90", rising: check */
    double gamma;
} MultiStep;

/* Parses the number at *at and moves *at behind the comma, or to NULL at the end; -1: there is no number. */
static int64_t next_step(const char **at)
{
    char *end;
    long long v;

    errno = 0;
    v = **at >= '0' && **at <= '9' ? strtoll(*at, &end, 10) : -1;
    if (v < 0 || errno || (*end && *end != ','))
        return -1;
    *at = *end ? end + 1 : NULL;
    return v;
}

static double multi_step_factor(const void *settings, SchedulePoint at)
{
    const MultiStep *s = settings;
    int passed = 0;

    for (const char *next = s->at; next && next_step(&next) <= at.step;)
        passed++;
    return pow(s->gamma, passed);
}

static Status multi_step_check(const void *settings)
{
    const MultiStep *s = settings;
    int64_t last = 0;

    for (const char *at = s->at; at;) {
        const int64_t v = next_step(&at);

        if (v <= last)
            return FAIL(E_INVALID,
                        "--lr-schedule multi-step: expected rising steps from 1 on, as in 100,200, found '%s'", s->at);
        last = v;
    }
    return ST_OK;
}

static const Setting args[] = {
    { .name = "at", .metavar = "STEP,STEP,...", .help = "steps", SETTING_OF(MultiStep, at) },
    { .name = "gamma",
      .metavar = "GAMMA",
      .fallback = "0.1",
      .help = "the factor",
      SETTING_OF(MultiStep, gamma),
      .min = 0,
      .above_min = true,
      .max = 1 },
    { .name = NULL },
};

DEFINE_SCHEDULE(multi_step,
                .recipe = { .name = "multi-step",
                            .form = "multi-step:STEP,STEP,...[:GAMMA]",
                            .help = "times GAMMA [0.1] at each of these steps",
                            .args = args,
                            RECIPE_SETTINGS(MultiStep),
                            .check = multi_step_check },
                .factor = multi_step_factor);
