/* OpDef.standard of the operators in grid_sample.c. */
#ifndef DPX_OPS_GRID_SAMPLE_STANDARD_H
#define DPX_OPS_GRID_SAMPLE_STANDARD_H

#include "graph/ir/graph.h"

Status grid_sample_standard(Graph *g, Node *n); /* of "elements"; what ONNX has stays */
Status grid_sample_standard_grad(Graph *g, Node *n);

#endif
