/* What the passes about layouts share. */
#ifndef DPX_LAYOUT_H
#define DPX_LAYOUT_H

#include "graph/layout.h"
#include "passes/pass.h"

/* Would the device compute the node with all that it reads and writes in this layout?  Nothing changes. */
bool layout_computes(Graph *g, const Node *n, Layout to, const PassCtx *ctx);

#endif
