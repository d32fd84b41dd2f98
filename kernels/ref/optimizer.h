/* Shared by the kernels of parameter updates, ref and cpu. */
#ifndef DPX_KERNELS_REF_OPTIMIZER_H
#define DPX_KERNELS_REF_OPTIMIZER_H

#include "exec/backend.h"

typedef struct { double momentum, decay; bool nesterov, has_buffer; } Sgd;
typedef struct { double beta1, beta2, eps, decay; bool decoupled; } Adam;

Status sgd_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;
Status adam_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;

#endif
