/* OpDef.standard of DetGrad. */
#ifndef DPX_OPS_DET_STANDARD_H
#define DPX_OPS_DET_STANDARD_H

#include "graph/ir/graph.h"

Status det_standard_grad(Graph *g, Node *n);

#endif
