/* A metric: what is measured of the scores besides the loss, a sum over the batch and what that sum weighs; the metric
 * is their quotient, over as many batches as were added up. */
#ifndef DPX_METRIC_H
#define DPX_METRIC_H

#include "graph/recipes/loss.h"

typedef struct {
    Recipe recipe;
    TargetKind target;                               /* goes with losses of this kind */
    void (*emit)(LossBody *b, const void *settings); /* as of a loss; `weights` is not there */
} MetricDef;

#define DEFINE_METRIC(ident, ...) const MetricDef metric_##ident = { __VA_ARGS__ }

#include "graph/recipes/metrics.gen.h"

#endif
