/* Loss and accuracy over a whole data set, exact for a last, smaller batch: sums are added, not means. */
#ifndef DPX_TOOLS_EVALUATE_H
#define DPX_TOOLS_EVALUATE_H

#include "tools/feed.h"

typedef struct {
    double loss, accuracy;
    int64_t samples, counted; /* counted 0: no accuracy was asked for */
} Evaluation;

Status evaluate(Evaluation *out, dpx_trainer *t, const Feed *f, int64_t batch_size) CHECKED;

#endif
