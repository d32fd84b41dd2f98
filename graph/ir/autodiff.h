/* Reverse-mode differentiation of a graph. */
#ifndef DPX_AUTODIFF_H
#define DPX_AUTODIFF_H

#include "graph/ir/graph.h"

#define GRADIENT_OF "gradient of " /* prefix of the backward nodes' names: "gradient of conv1.weight" */

/* Appends the nodes that compute d loss / d wrt[i] for a scalar `loss`; grads[i] is NO_VALUE where the loss does not
 * depend on wrt[i].  The graph must be sorted, shaped and lowered.  E_UNSUPPORTED lists all operators between the loss
 * and wrt that have no gradient.  Tables of n_value entries are made in `scratch`. */
Status autodiff(Graph *g, Arena *scratch, ValueId loss, int n_wrt, const ValueId *wrt, ValueId *grads) CHECKED;

#endif
