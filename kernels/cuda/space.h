/* The strides of an elementwise kernel's operands in its iteration space. */
#ifndef DPX_CUDA_SPACE_H
#define DPX_CUDA_SPACE_H

#include "graph/ir/graph.h"

typedef struct {
    const Value *value;
    bool channels; /* a vector of one number per channel: it stands along axis 1 */
} SpaceOperand;

/* The dimensions of `out` in the order in which its elements lie in memory, innermost first, without those of size 1;
 * neighbours that every operand, which broadcasts to it, walks with one stride are merged.  Gives the sizes and each
 * operand's strides in elements of its own memory.  Returns how many are left, -1 when there are no elements. */
int space_merge(const Value *out, int n, const SpaceOperand *operand, int64_t dim[MAX_RANK],
                int64_t (*stride)[MAX_RANK]);
/* Does every operand stand still or go on by one element along the innermost dimension? */
bool space_is_even(int rank, int n, int64_t (*stride)[MAX_RANK]);

#endif
