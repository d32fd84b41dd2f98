/* OpDef.standard of the operators in recurrent.c. */
#ifndef DPX_OPS_RECURRENT_STANDARD_H
#define DPX_OPS_RECURRENT_STANDARD_H

#include "graph/ir/graph.h"

Status recurrent_standard(Graph *g, Node *n);
Status recurrent_standard_grad(Graph *g, Node *n);

#endif
