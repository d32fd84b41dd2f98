/* Inputs of Conv and ConvRelu, for their kernels and for the pass that makes one of the other; helpers for gradients of
 * windows. */
#ifndef DPX_OPS_CONV_H
#define DPX_OPS_CONV_H

#include "graph/ir/graph.h"

enum {
    CONV_IN_X,
    CONV_IN_W,
    CONV_IN_BIAS,
    CONV_IN_ADDED,
    CONV_INPUTS
}; /* CONV_IN_ADDED belongs to ConvRelu only; it has Y's shape */

/* ConvTranspose of dy by w with the window of n, padded or cut at the end to spatial size `spatial`. */
ValueId conv_transposed(Graph *g, const Node *n, ValueId dy, ValueId w, int64_t group, const int64_t *spatial);

/* Does the output end less than a stride after the last window?  Libraries support only such output sizes. */
bool conv_reaches_all(const Graph *g, const Node *n);

#endif
