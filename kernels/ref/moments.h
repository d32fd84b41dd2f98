/* Merging the statistics of parts of a batch: shared by the kernels of BatchNormMerge, ref and cpu. */
#ifndef DPX_KERNELS_REF_MOMENTS_H
#define DPX_KERNELS_REF_MOMENTS_H

#include "kernels/backend.h"

typedef struct {
    int64_t channels;
    double keep, take;
    bool check, unbiased, running[2];
} MergePlan;

typedef struct {
    double n, mean, m2;
} Moments;

Status ref_merge_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;
/* Elements of a channel in all rows; E_SHAPE when their variance must exist and does not. */
Status ref_merge_count(double *out, const MergePlan *p, const Tensor *rows) CHECKED;
/* Rows [lo, hi) of channel c, lo < hi, by a binary tree that depends on the row numbers alone. */
Moments ref_merge_rows(const double *rows, int64_t channels, int64_t c, int64_t lo, int64_t hi);
/* The factor from the population variance of n numbers to the running variance. */
double ref_merge_correction(const MergePlan *p, double n);

#endif
