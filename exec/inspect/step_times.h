/* What a step that is reported would take. */
#ifndef DPX_STEP_TIMES_H
#define DPX_STEP_TIMES_H

#include "exec/train/options.h"
#include "passes/report.h"

/* Fills `time` and the seconds of phases and collectives in the report of `g`, a whole run's of the model with these
 * options, on the devices that --links describes or has measured; without it nothing. */
Status step_times(Report *r, const Graph *g, const Graph *model, const Options *o) CHECKED;

#endif
