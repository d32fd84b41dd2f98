/* The sums of the run's metrics, as outputs of a step. */
#ifndef DPX_METRIC_SUMS_H
#define DPX_METRIC_SUMS_H

#include "passes/options/recipes.h"
#include "passes/pass.h"

/* E_INVALID: a metric does not go with the loss. */
Status metrics_check(const RecipeOptions *o) CHECKED;
/* Emits the metrics from scores and targets.  out[0..*n) are their outputs: OUT_METRIC_SUM and OUT_METRIC_WEIGHT of the
 * first, NAME.k of the k-th behind it; one with a table has no weight. */
Status metrics_emit(Output *out, int *n, const LossBody *scores, const BuildOptions *opt) CHECKED;

#endif
