/* Replicas whose samples reach less far along an axis than the batch's longest: for each length there is a graph of its
 * own, the step of a batch that is as long, and a replica's copies are made as that graph has them. */
#ifndef DPX_VARIANTS_H
#define DPX_VARIANTS_H

#include "passes/partition/place.h"

/* The step of one more length. */
typedef struct {
    Graph *g;
    struct InputShape *input; /* [n_input] as of BuildOptions */
    Shape target;
    ValueId *of;       /* by value id of the graph of the longest: the same here; of no constant */
    const Node **node; /* by node index likewise */
} Variant;

struct Variants {
    Arena *arena;
    Variant *list;
    int n, replicas; /* n 0: all replicas have the longest */
    int *of;         /* [replicas] the variant; -1: the longest */
    bool *differ;    /* by node index: attributes, or what constants hold, are not the same in all */
    char why[512];   /* some replicas have the longest although theirs are shorter; "": none */
};

/* Lengths that differ, of a graph that no pass has seen; NULL: there are none.  variants_free is due. */
Status variants_create(Variants **out, const Graph *g, const BuildOptions *opt) CHECKED;
void variants_free(Variants *v); /* NULL is legal */
/* Gives up variant i, i < 0 all, for the reason that the status message says, unless that is E_NOMEM: the replicas have
 * the longest. */
Status variants_drop(Variants *v, int i, Status why) CHECKED;
/* Pairs the values and nodes of the graphs, and finds the nodes that differ.  Gives up variants that cannot be paired.
 */
Status variants_match(Variants *v, const Graph *g, Arena *a) CHECKED;
/* Gives up variants whose own partition would differ from that of the longest, `t`. */
Status variants_compare(Variants *v, const Graph *g, const Placements *t, PassCtx *ctx, Arena *a) CHECKED;

/* Finds the values of the placements `t` that differ between variants: in shape or, if they are not split, in content.
 * Finds the nodes that read such a value that is not split, too. */
Status variants_spread(Placements *t, const Graph *g, const Partition *p, Arena *a) CHECKED;
/* E_UNSUPPORTED if a node or an output joins values that differ between replicas. */
Status variants_check(const Placements *t, const Graph *g, const Partition *p) CHECKED;
/* Makes values that differ and are not split each replica's own. */
void variants_settle(Placements *t, const Graph *g);

/* The variant of replica r; NULL: the longest. */
static inline const Variant *variant_of(const Partition *p, int r)
{
    const Variants *v = p->variants;

    return v && v->n && v->of[r] >= 0 ? &v->list[v->of[r]] : NULL;
}

#endif
