/* Times of a reported step. */
#ifndef DPX_STEP_TIMES_H
#define DPX_STEP_TIMES_H

#include "exec/train/options.h"
#include "passes/report.h"

/* Fills `time` and the seconds of phases, collectives and nodes in the report of `g`.  `g` is the result of a whole
 * pipeline run of the model with these options; the devices are those that --links describes or measures.  Does nothing
 * without
 * --links. */
Status step_times(Report *r, const Graph *g, const Graph *model, const Options *o) CHECKED;

#endif
