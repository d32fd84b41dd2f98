/* The best evaluation of a run so far: which figure is monitored, what its best value was, and how long ago. */
#ifndef DPX_TOOLS_BEST_SO_FAR_H
#define DPX_TOOLS_BEST_SO_FAR_H

#include "tools/args.h"

enum { MONITOR_TEXT = 96 };

/* The figure that decides which model is the best. */
typedef struct {
    char name[MONITOR_TEXT]; /* "loss", or a metric's name; "": nothing is monitored */
    bool rises;              /* greater is better */
} Monitor;

typedef struct {
    char of[MONITOR_TEXT + 8]; /* "accuracy:max", the monitor that chose it; "": none did yet */
    int64_t step, epoch;       /* of the best evaluation; step -1: there is none */
    double value;
    int64_t since;   /* evaluations after it, none of which was better */
    int64_t counted; /* step of the last evaluation that counted; -1: there was none */
} BestSoFar;

static const BestSoFar BEST_NONE = { .step = -1, .counted = -1 };

/* Reads --monitor METRIC[:max|min].  Its default is the first metric that is a number, else the loss.  E_INVALID:
 * the run measures no such metric.  Without `evaluates` nothing is monitored, and flags that need evaluations are
 * errors. */
Status monitor_read(Monitor *out, const Args *a, bool evaluates) CHECKED;
/* "accuracy:max" */
void monitor_text(char text[MONITOR_TEXT + 8], const Monitor *m);
/* The metric that schedules with MODE max or min-metric follow: the monitored one, or beside the loss the first of
 * those that are numbers.  An empty name: there is none. */
Monitor monitor_metric(const Monitor *m, const Args *a);
/* Lets a plateau schedule that names no MODE follow the monitor, unless a run is resumed whose schedule named none and
 * followed the loss.  E_INVALID: a MODE is for metrics of the other direction than the one that is followed. */
Status monitor_lead_schedule(const Monitor *m, const Args *a) CHECKED;

/* Counts an evaluation at `step` of `epoch`, and returns whether its value is the best so far.  A value that is not
 * finite, or equal to the best, is no better. */
bool best_take(BestSoFar *b, const Monitor *m, double value, int64_t step, int64_t epoch);

#endif
