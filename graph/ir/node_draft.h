/* A node in the making.  What a node would become is written down, the target is asked whether it computes that, and
 * only then does anything of the graph change:
 *
 *     draft_begin(&d, conv, &op_ConvRelu);         with the inputs, outputs and attributes that Conv has
 *     draft_in(&d, CONV_IN_ADDED, z);
 *     draft_out(&d, 0, relu->out[0]);
 *     draft_absorb(&d, relu);                      which goes, as its result is made here
 *     ctx->n_changed += draft_try_apply(&d);
 *
 * One Draft serves a whole pass: each beginning forgets what was written before.  Memory that runs out, and what
 * inference refuses, is in g->status. */
#ifndef DPX_NODE_DRAFT_H
#define DPX_NODE_DRAFT_H

#include "graph/ir/op.h"
#include "graph/ir/target.h"

typedef struct {
    Graph *g;
    const Target *target;
    Arena *arena; /* of what is written down; must outlive the Draft */
    int n_device; /* the target's; nodes with a higher one are the host's, which nobody fuses */
    Node node;    /* as it would be */
    Attr *attr;   /* its, while it is written */
    Node *of;     /* the node that becomes it */
    Node **absorbed;
    int n_absorbed;
    size_t cap_in, cap_out, cap_attr, cap_absorbed;
} Draft;

void draft_open(Draft *d, Graph *g, const Target *t, int n_device, Arena *a);

/* What n would be as an `op`: it has n's inputs, outputs and place, those attributes of n that both operators declare,
 * and the defaults of the others. */
void draft_begin(Draft *d, Node *n, const OpDef *op);
void draft_clear(Draft *d);                   /* no inputs and no outputs */
void draft_in(Draft *d, int i, ValueId v);    /* those between it and the last that there was are absent */
void draft_out(Draft *d, int o, ValueId v);   /* likewise; v is made by another node, which goes, or by none */
void draft_attr(Draft *d, const Attr *a);     /* lent until the draft is settled or begun again */
void draft_attrs(Draft *d, const Attr *list); /* likewise, of ATTRS */
void draft_absorb(Draft *d, Node *n);         /* n goes when the draft becomes a node */
/* A new value as output o, called after `of` with `suffix` behind it, at its place and of its type until fits or become
 * infers them.  It is dead where neither does. */
ValueId draft_new_out(Draft *d, int o, ValueId of, const char *suffix);

/* Does the target compute such a node?  Infers what outputs of unknown shape are. */
bool draft_is_supported(Draft *d);
/* The node becomes what is written, without asking. */
void draft_apply(Draft *d);
/* The node becomes what is written, if that fits; did it? */
bool draft_try_apply(Draft *d);

#endif
