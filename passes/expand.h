/* The partitioned graph is made in place: copies of every node and value are appended, then the originals are
 * dropped. */
#ifndef DPX_EXPAND_H
#define DPX_EXPAND_H

#include "passes/place.h"

typedef struct SplitCopies SplitCopies;

typedef struct {
    Graph *g;
    Arena *a; /* scratch */
    const Partition *p;
    const Placements *t;
    uint32_t n_value;    /* of the unpartitioned graph: the tables' size */
    ValueId **native;    /* by value id: copies as t->value says, [devices] for B, else [replicas]; NULL: not yet */
    ValueId **whole;     /* by value id: the copies [devices] of a value that is not B, once somebody needs them */
    SplitCopies **split; /* by value id: parts [replicas] of a value that is not split that way */
} Expander;

Status expand_graph(Graph *g, const Partition *p, const Placements *t, Arena *a) CHECKED;

/* ---- passes/expand_convert.c ---- */
/* The copies of v in the placement `want`: [devices] for B, else [replicas].  NULL after a failure, in g->status. */
const ValueId *expand_copies(Expander *x, ValueId v, Place want);
/* The replicas' rows of a value placed L, stacked, [devices]. */
const ValueId *expand_stacked(Expander *x, ValueId v);
/* The whole value on device 0 alone. */
ValueId expand_on_first(Expander *x, ValueId v);

/* ---- passes/expand_node.c ---- */
/* The shape of replica r's copy of v at placement `at`; r < 0: of a device's copy. */
Shape expand_local_shape(const Expander *x, ValueId v, Place at, int r);
/* A copy of n for replica r (or, r < 0, for device d) that reads in[]. */
Node *expand_clone(Expander *x, const Node *n, const ValueId *in, int r, int d);
/* Appends a node whose outputs are copies of v: for output i on device device[i]; replica[i] >= 0 names "v@r1", else
 * "v@d0". */
Node *expand_emit(Expander *x, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in, ValueId v, int n_out,
                  const int *replica, const int *device);

#endif
