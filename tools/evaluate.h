/* Loss and metric over a whole data set, exact for a last, smaller batch: sums are added, not means. */
#ifndef DPX_TOOLS_EVALUATE_H
#define DPX_TOOLS_EVALUATE_H

#include "tools/feed.h"
#include "tools/predictions.h"

typedef struct {
    double loss;
    dpx_metric metric;
    int64_t samples;
} Evaluation;

/* `parts`: of a world, each process of which reads its part.  `kept` takes the predictions; NULL: nobody does. */
Status evaluate(Evaluation *out, dpx_trainer *t, const Feed *f, int64_t batch_size, bool parts,
                Predictions *kept) CHECKED;

#endif
