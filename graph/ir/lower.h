/* Lowering: composite operators become simpler ones (OpDef.lower), dpexec's own become ai.onnx's (OpDef.standard). */
#ifndef DPX_LOWER_H
#define DPX_LOWER_H

#include "graph/ir/op.h"

typedef struct {
    bool standard;  /* lower by OpDef.standard; else by OpDef.lower */
    bool infer;     /* infer types before lowering each node; else the caller has inferred them */
    uint32_t first; /* index of the first node to lower */
    ValueId *held;  /* [n_held] values that the caller keeps: they count as read, and receive their replacements */
    int n_held;
    int *n_lowered; /* the number of lowered nodes is added to it; may be NULL */
} Lowering;

/* Lowers each node from how->first on that has a rule and known inputs, and the nodes that result from it, then removes
 * nodes with a rule that nothing reads.  New nodes stand at the end, so the graph may need graph_sort.  No rewrite may
 * be open; its table is made in `scratch`. */
Status graph_lower(Graph *g, Arena *scratch, const Lowering *how) CHECKED;

#endif
