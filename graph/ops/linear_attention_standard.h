/* OpDef.standard of the operators in linear_attention.c. */
#ifndef DPX_OPS_LINEAR_ATTENTION_STANDARD_H
#define DPX_OPS_LINEAR_ATTENTION_STANDARD_H

#include "graph/ir/graph.h"

Status delta_rule_standard(Graph *g, Node *n);
Status delta_rule_standard_grad(Graph *g, Node *n);

#endif
