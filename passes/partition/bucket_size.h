/* How large buckets of gradients should be, by what sums cost. */
#ifndef DPX_BUCKET_SIZE_H
#define DPX_BUCKET_SIZE_H

#include "passes/options/collectives.h"
#include "passes/pass.h"

/* The best bucket size in bytes for `bytes` of gradients that a device makes in `compute` seconds; *seconds: how long
 * the step then waits for sums. */
int64_t bucket_size_choose(double *seconds, const SumCost *cost, int64_t bytes, double compute);
/* Seconds that the step waits for sums in buckets of `bucket` bytes. */
double bucket_size_wait(const SumCost *cost, int64_t bytes, double compute, int64_t bucket);

#endif
