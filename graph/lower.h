/* Composite operators become simpler ones (OpDef.lower). */
#ifndef DPX_LOWER_H
#define DPX_LOWER_H

#include "graph/op.h"

/* Lowers what is composite and of known inputs among the nodes from number `first` on, and among those that it becomes;
 * composite nodes that nothing reads then are gone.  `infer`: types are found on the way; else they have been, as far
 * as they can be.  held[n_held] are values that the caller goes on with: they count as read, and become what stands for
 * them.  To *n_lowered, unless it is NULL, is added how many were.  New nodes stand at the end, so the graph may need
 * graph_sort.  No rewrite may be open; its table is in `scratch`. */
Status graph_lower(Graph *g, uint32_t first, bool infer, Arena *scratch, int n_held, ValueId *held,
                   int *n_lowered) CHECKED;

#endif
