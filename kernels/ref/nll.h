/* Shared by the kernels of losses over class numbers, ref and cpu. */
#ifndef DPX_KERNELS_REF_NLL_H
#define DPX_KERNELS_REF_NLL_H

#include "kernels/ref/ref_move.h"

typedef struct {
    int n_in, weights; /* weights: the input that holds them, if it is there */
    int64_t ignore;
    double smoothing;
    char target[200]; /* its name */
} Nll;

Status nll_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;
/* The class of sample `i`, or -1 when it is ignored; E_INVALID names the target and a label that is no class. */
Status nll_label(int64_t *out, const Nll *p, const Tensor *target, int64_t i, int64_t classes) CHECKED;
/* Checks all labels; E_INVALID names the first that is no class. */
Status nll_check_labels(const Nll *p, const Tensor *target, int64_t classes) CHECKED;

#endif
