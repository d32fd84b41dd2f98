/* A schedule: which fraction of --lr each step uses. */
#ifndef DPX_SCHEDULE_H
#define DPX_SCHEDULE_H

#include <math.h>

#include "graph/recipes/recipe.h"

/* What a schedule has made of the evaluations that it observed: of the rate, the best value, how many were no better
 * since, and how many more do not count. */
typedef struct {
    double factor, best, bad, cooldown;
} ScheduleState;

#define SCHEDULE_BEGIN ((ScheduleState){ .factor = 1, .best = NAN })

/* Bits. */
typedef enum { OBSERVES_LOSS = 1, OBSERVES_METRIC = 2 } ObservedKind;

typedef struct {
    Recipe recipe;
    bool ends; /* it needs to know the number of steps */
    /* Of step `step`, counted from 0 behind the warm-up; `span`: the steps from there to the end, 0 when not known. */
    double (*factor)(const void *settings, int64_t step, int64_t span);
    /* Of a schedule that follows evaluations, whose state's factor multiplies the rate; NULL: it follows none. */
    ObservedKind (*observes)(const void *settings);
    bool (*falls)(const void *settings); /* should what it observes fall, or rise? */
    void (*observe)(const void *settings, ScheduleState *s, double lr, double value);
} ScheduleDef;

#define DEFINE_SCHEDULE(ident, ...) const ScheduleDef schedule_##ident = { __VA_ARGS__ }

/* How far step `step` of `span` is from the beginning (0) to the end (1). */
static inline double schedule_done(int64_t step, int64_t span)
{
    return span > 0 && step < span ? (double)step / (double)span : 1;
}

#define FINAL_RATE(Struct, field)                                                                           \
    {                                                                                                       \
        .name = "final", .metavar = "FINAL", .fallback = "0", .help = "the last rate, as a fraction of lr", \
        SETTING_OF(Struct, field), .min = 0, .max = 1                                                       \
    }

#include "graph/recipes/schedules.gen.h"

#endif
