/* The definition of a learning-rate schedule: the factor of --lr in each step. */
#ifndef DPX_SCHEDULE_H
#define DPX_SCHEDULE_H

#include <math.h>

#include "graph/recipes/recipe.h"

/* The state of a schedule that follows evaluations: its factor of the rate, the best value so far, the number of
 * evaluations since that were not better, and the number of further ones that do not count. */
typedef struct {
    double factor, best, bad, cooldown;
} ScheduleState;

#define SCHEDULE_BEGIN ((ScheduleState){ .factor = 1, .best = NAN })

/* Bits. */
typedef enum { OBSERVES_LOSS = 1, OBSERVES_METRIC = 2 } ObservedKind;

/* A step of a run: its number, counted from 0 after the warm-up, the number of steps after the warm-up (0: not known),
 * and that of the warm-up. */
typedef struct {
    int64_t step, span, warmup;
} SchedulePoint;

typedef struct {
    Recipe recipe;
    bool ends; /* it needs the number of steps */
    double (*factor)(const void *settings, SchedulePoint at);
    /* The value that the schedule observes; its state's factor also multiplies the rate.  NULL: it observes none. */
    ObservedKind (*observes)(const void *settings);
    bool (*falls)(const void *settings); /* is a smaller observed value better? */
    void (*observe)(const void *settings, ScheduleState *s, double lr, double value);
} ScheduleDef;

#define DEFINE_SCHEDULE(ident, ...) const ScheduleDef schedule_##ident = { __VA_ARGS__ }

/* The share of the steps after the warm-up that is done before this one: 0 at the beginning, 1 from the end on. */
static inline double schedule_done(SchedulePoint at)
{
    return at.span > 0 && at.step < at.span ? (double)at.step / (double)at.span : 1;
}

/* Settings of schedules with no other argument. */
typedef struct {
    double final;
} FinalRate;

#define FINAL_RATE(Struct, field)                                                                           \
    {                                                                                                       \
        .name = "final", .metavar = "FINAL", .fallback = "0", .help = "the last rate, as a fraction of lr", \
        SETTING_OF(Struct, field), .min = 0, .max = 1                                                       \
    }

#include "graph/recipes/schedules.gen.h"

#endif
