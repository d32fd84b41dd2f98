/* The formula of an Update node. */
#ifndef DPX_OPS_UPDATE_H
#define DPX_OPS_UPDATE_H

#include "graph/body.h"
#include "graph/grad.h"

/* Squares of gradients are added by pieces of so many elements of a tensor, and then piece by piece: whoever has whole
 * pieces adds the same numbers in the same order. */
enum { NORM_PIECE = 4096 };

/* The formula of node n with its types: input i and output i are n's.  The caller frees it, before g goes.  E_MODEL,
 * E_SHAPE for a formula that is none. */
Status update_body(Graph **out, const Graph *g, const Node *n) CHECKED;

#endif
