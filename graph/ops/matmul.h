/* The roles of the axes of a matrix product's operands, for inference and kernels. */
#ifndef DPX_OPS_MATMUL_H
#define DPX_OPS_MATMUL_H

#include "graph/ir/op.h"

typedef struct {
    Shape a, b;
    int row, k_a;                  /* axes of A: free, contracted; row -1 for a 1-D A */
    int k_b, col;                  /* axes of B; col -1 for a 1-D B */
    int batch_a, batch_b, batch_y; /* number of leading batch axes */
} MatMulRoles;

/* Reads a MatMul, BatchMatMul or Gemm. */
void matmul_roles(MatMulRoles *r, const Graph *g, const Node *n);
/* Writes the offset of the operand's matrix, of `size` elements, for each batch of the product y, to which the operand
 * of shape s is broadcast. */
void matmul_offsets(int64_t *offset, const Shape *s, int batch, const Shape *y, int batch_y, int64_t size);

#endif
