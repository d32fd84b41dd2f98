/* Shared by the kernels of parameter updates, ref and cpu. */
#ifndef DPX_KERNELS_REF_OPTIMIZER_H
#define DPX_KERNELS_REF_OPTIMIZER_H

#include "exec/backend.h"

/* count: parameters of the node. */
typedef struct { double momentum, decay; bool nesterov, has_buffer; int count; } Sgd;
typedef struct { double beta1, beta2, eps, decay; bool decoupled; int count; } Adam;

/* Of SgdUpdate and SgdUpdateAll. */
Status sgd_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;
/* Of AdamUpdate and AdamUpdateAll. */
Status adam_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;

#endif
