/* What the passes about layouts share. */
#ifndef DPX_LAYOUT_H
#define DPX_LAYOUT_H

#include "graph/tensor/layout.h"
#include "passes/pass.h"

/* Would the device compute the node with what it reads and writes in these layouts?  Nothing changes. */
bool layout_computes(Graph *g, const Node *n, NodeLayouts to, const PassCtx *ctx);
/* Of the layouts that the target prefers for the node, the first in which it computes it; else rows. */
NodeLayouts layout_preferred(Graph *g, const Node *n, const PassCtx *ctx);

#endif
