/* OpDef.standard of the operators into which training batch-norm is lowered. */
#ifndef DPX_OPS_BATCHNORM_STANDARD_H
#define DPX_OPS_BATCHNORM_STANDARD_H

#include "graph/ir/graph.h"

Status batch_norm_standard_merge(Graph *g, Node *n);
Status batch_norm_standard_apply(Graph *g, Node *n);
Status batch_norm_standard_grad_stats(Graph *g, Node *n);
Status batch_norm_standard_grad_input(Graph *g, Node *n);
Status batch_norm_standard_grad_params(Graph *g, Node *n);

#endif
