/* Operators become others: composite ones simpler ones (OpDef.lower), ours those of ai.onnx (OpDef.standard). */
#ifndef DPX_LOWER_H
#define DPX_LOWER_H

#include "graph/ir/op.h"

typedef struct {
    bool standard;  /* by OpDef.standard; else by OpDef.lower */
    bool infer;     /* types are found on the way; else they have been, as far as they can be */
    uint32_t first; /* the first node that is looked at */
    ValueId
        *held; /* [n_held] values that the caller goes on with: they count as read, and become what stands for them */
    int n_held;
    int *n_lowered; /* to it is added how many were; may be NULL */
} Lowering;

/* Lowers what has such a rule and known inputs among the nodes from how->first on, and among those that it becomes;
 * nodes with such a rule that nothing reads then are gone.  New nodes stand at the end, so the graph may need
 * graph_sort.  No rewrite may be open; its table is in `scratch`. */
Status graph_lower(Graph *g, Arena *scratch, const Lowering *how) CHECKED;

#endif
