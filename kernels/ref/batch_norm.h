/* Batch normalisation: the states of kernels, which all backends share, and the merging of statistics of parts of a
 * batch. */
#ifndef DPX_KERNELS_REF_BATCH_NORM_H
#define DPX_KERNELS_REF_BATCH_NORM_H

#include "kernels/backend.h"

typedef struct {
    int64_t n, c, inner; /* samples, channels, positions */
    int64_t side;        /* channels that stand side by side in memory; 1: data is stored by rows */
    double epsilon, momentum;
    bool clamp, unbiased;
    bool relu;     /* dy is that of the Relu behind */
    bool wants[2]; /* outputs 1 and 2: the next running mean and variance, or the gradients of scale and bias */
} BatchNorm;

Status batch_norm_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;

/* The state of BatchNormMerge, BatchNormMoments and BatchNormSets. */
typedef struct {
    int64_t channels, sets;
    double keep, take;
    bool check, unbiased, average;
    bool running[2]; /* running mean and variance are there */
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
