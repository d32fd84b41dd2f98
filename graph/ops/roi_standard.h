/* OpDef.standard of the operators in roi.c. */
#ifndef DPX_OPS_ROI_STANDARD_H
#define DPX_OPS_ROI_STANDARD_H

#include "graph/ir/graph.h"

Status roi_standard_align_grad(Graph *g, Node *n);
Status roi_standard_max_grad(Graph *g, Node *n);

#endif
