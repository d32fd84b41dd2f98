/* Reverse-mode differentiation of a graph, usable outside the pipeline (tests, embedders). */
#ifndef DPX_AUTODIFF_H
#define DPX_AUTODIFF_H

#include "graph/ir/graph.h"

#define GRADIENT_OF "gradient of " /* names of nodes that say what they are for (graph_begin_purpose) begin so */

/* Appends the nodes that compute d loss / d wrt[i] for a scalar `loss`; grads[i] is NO_VALUE where the loss does not
 * depend on wrt[i].  The graph must be sorted, shaped and lowered.  E_UNSUPPORTED lists all operators on the way that
 * have no gradient.  Needs 3 tables of n_value entries in `scratch`. */
Status autodiff(Graph *g, Arena *scratch, ValueId loss, int n_wrt, const ValueId *wrt, ValueId *grads) CHECKED;

#endif
