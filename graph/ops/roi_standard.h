/* OpDef.standard of roi.c's. */
#ifndef DPX_OPS_ROI_STANDARD_H
#define DPX_OPS_ROI_STANDARD_H

#include "graph/ir/graph.h"

Status roi_standard_align_grad(Graph *g, Node *n);
Status roi_standard_max_grad(Graph *g, Node *n);

#endif
