/* Which axis of a matrix product's operands means what; shared with the kernels. */
#ifndef DPX_OPS_MATMUL_H
#define DPX_OPS_MATMUL_H

#include "graph/ir/op.h"

typedef struct {
    Shape a, b;
    int row, k_a;                  /* axes of A: free, contracted; row -1 for a 1-D A */
    int k_b, col;                  /* axes of B; col -1 for a 1-D B */
    int batch_a, batch_b, batch_y; /* leading axes that count batches */
} MatMulRoles;

/* Of MatMul, BatchMatMul and Gemm. */
void matmul_roles(MatMulRoles *r, const Graph *g, const Node *n);
/* Where the matrix of a broadcast operand begins for each batch of the product y; `size` elements lie in a matrix. */
void matmul_offsets(int64_t *offset, const Shape *s, int batch, const Shape *y, int batch_y, int64_t size);

#endif
