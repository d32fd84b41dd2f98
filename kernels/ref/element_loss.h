/* Shared by the kernels of losses of one element against one, ref and cpu. */
#ifndef DPX_KERNELS_REF_ELEMENT_LOSS_H
#define DPX_KERNELS_REF_ELEMENT_LOSS_H

#include "kernels/ref/ref.h"

typedef enum { ELEMENT_MSE, ELEMENT_L1, ELEMENT_BCE, ELEMENT_BCE_LOGITS } ElementKind;
typedef struct {
    ElementKind kind;
    int by; /* the gradient's: 0 the prediction, 1 the target */
} ElementLoss;

Status element_loss_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;

#endif
