/* The norm of gradients: the state of GlobalNorm, SquareSums and NormOfSums, for the kernels ref and cpu. */
#ifndef DPX_KERNELS_REF_GRADIENT_NORM_H
#define DPX_KERNELS_REF_GRADIENT_NORM_H

#include "graph/ops/update.h"
#include "kernels/backend.h"

typedef struct {
    int n; /* tensors */
    double max_norm;
    bool scaled; /* the input behind the tensors, or behind the sums, multiplies all gradients */
    /* [n], of the node's attributes: elements of each whole tensor, and the first that the node has (-1: none); NULL
     * where the node has no such attribute. */
    const int64_t *count, *from;
} GradientNorm;

Status gradient_norm_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n) CHECKED;
/* Sums that SquareSums keeps of a tensor of `count` elements. */
static inline int64_t norm_pieces(int64_t count) { return (count + NORM_PIECE - 1) / NORM_PIECE; }
/* Writes the norm, and the factor that limits it to max_norm: of gradients whose squares sum to `squares`, and which
 * `by` (NULL: 1) multiplies. */
void gradient_norm_write(const GradientNorm *p, double squares, const Tensor *by, Tensor *out);

#endif
