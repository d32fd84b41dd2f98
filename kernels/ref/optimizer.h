/* Shared by the kernels of parameter updates, ref and cpu. */
#ifndef DPX_KERNELS_REF_OPTIMIZER_H
#define DPX_KERNELS_REF_OPTIMIZER_H

#include <string.h>

#include "kernels/backend.h"

/* count: parameters of the node.  scale, apply: the inputs that each gradient is multiplied by, and that say whether
 * the update happens; -1: absent. */
typedef struct {
    double momentum, decay;
    bool nesterov, has_buffer;
    int count, scale, apply;
} Sgd;
typedef struct {
    double beta1, beta2, eps, decay;
    bool decoupled;
    int count, scale, apply;
} Adam;

/* Of SgdUpdate and SgdUpdateAll. */
Status sgd_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;
/* Of AdamUpdate and AdamUpdateAll. */
Status adam_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;

static inline bool update_applies(int apply, const Tensor *in) { return apply < 0 || *(const bool *)in[apply].data; }

/* A state that stays as it was. */
static inline void update_keep(const Tensor *in, Tensor *out)
{
    if (out->data != in->data && tensor_bytes(in))
        memcpy(out->data, in->data, tensor_bytes(in));
}

#endif
