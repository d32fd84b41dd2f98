/* Shared functions of the passes about layouts. */
#ifndef DPX_LAYOUT_H
#define DPX_LAYOUT_H

#include "graph/tensor/layout.h"
#include "passes/pass.h"

/* Would the device compute the node with its inputs and outputs in these layouts?  The graph is unchanged. */
bool layout_computes(Graph *g, const Node *n, NodeLayouts to, const PassCtx *ctx);

#endif
