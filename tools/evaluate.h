/* Evaluation: loss and metric over a whole data set, exact with a smaller last batch. */
#ifndef DPX_TOOLS_EVALUATE_H
#define DPX_TOOLS_EVALUATE_H

#include "tools/feed/feed.h"
#include "tools/feed/predictions.h"
#include "tools/metrics.h"
#include "tools/report/mistakes.h"

typedef struct {
    double loss;
    Metrics metrics;
    int64_t samples;
} EvalResult;

/* Evaluates the data set of the feed, in batches that a loader makes so, in order.  `parts`: each process of a world
 * reads its part.  `kept` receives the predictions, and `judged` what is wrong with them; NULL: not wanted.  Progress
 * is shown. */
Status evaluate(EvalResult *out, dpx_trainer *t, const dpx_options *o, const Feed *f, LoaderOptions how, bool parts,
                Predictions *kept, Mistakes *judged, Progress *progress) CHECKED;

#endif
