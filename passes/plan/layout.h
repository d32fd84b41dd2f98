/* Shared functions of the passes about layouts. */
#ifndef DPX_LAYOUT_H
#define DPX_LAYOUT_H

#include "graph/tensor/layout.h"
#include "passes/pass.h"

/* Would the device compute the node with its inputs and outputs in these layouts?  The graph is unchanged. */
bool layout_computes(Graph *g, const Node *n, NodeLayouts to, const PassCtx *ctx);
/* The first of the target's preferred layouts for the node in which it computes the node; rows if there is none. */
NodeLayouts layout_preferred(Graph *g, const Node *n, const PassCtx *ctx);

#endif
