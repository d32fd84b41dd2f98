/* The inputs of Conv and ConvRelu, for their kernels and for the pass that makes the one of the other; what gradients
 * of windows share. */
#ifndef DPX_OPS_CONV_H
#define DPX_OPS_CONV_H

#include "graph/ir/graph.h"

enum {
    CONV_IN_X,
    CONV_IN_W,
    CONV_IN_BIAS,
    CONV_IN_ADDED,
    CONV_INPUTS
}; /* the last of ConvRelu alone; it has Y's shape */

/* ConvTranspose of dy by w with the window of n, of which every place of `spatial` is there, and none more. */
ValueId conv_transposed(Graph *g, const Node *n, ValueId dy, ValueId w, int64_t group, const int64_t *spatial);

/* Is none of the output further behind the last window than a stride?  Of what a library computes it has to be so. */
bool conv_reaches_all(const Graph *g, const Node *n);

#endif
