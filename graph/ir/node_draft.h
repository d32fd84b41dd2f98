/* Draft: a change of a node that is applied to the graph only if the target supports the resulting node:
 *
 *     draft_begin(&d, conv, &op_ConvRelu);         with the inputs, outputs and attributes that Conv has
 *     draft_in(&d, CONV_IN_ADDED, z);
 *     draft_out(&d, 0, relu->out[0]);
 *     draft_absorb(&d, relu);                      removed, since conv makes its result now
 *     ctx->n_changed += draft_try_apply(&d);
 *
 * One Draft serves a whole pass: draft_begin discards what was written before.  Failures (memory, inference) are in
 * g->status. */
#ifndef DPX_NODE_DRAFT_H
#define DPX_NODE_DRAFT_H

#include "graph/ir/op.h"
#include "graph/ir/target.h"

typedef struct {
    Graph *g;
    const Target *target;
    Arena *arena; /* holds the lists of the draft; must outlive it */
    int n_device; /* number of the target's devices; nodes of higher devices run on the host and are never fused */
    Node node;    /* the drafted node */
    Attr *attr;   /* its attributes, while they are written */
    Node *of;     /* the node of the graph that the draft replaces */
    Node **absorbed;
    int n_absorbed;
    size_t cap_in, cap_out, cap_attr, cap_absorbed;
} Draft;

void draft_open(Draft *d, Graph *g, const Target *t, int n_device, Arena *a);

/* Begins a draft of n as an `op`, with n's inputs, outputs, device and replica, the attributes of n that both operators
 * declare, and the defaults of the others. */
void draft_begin(Draft *d, Node *n, const OpDef *op);
void draft_clear(Draft *d);                   /* removes all inputs and outputs */
void draft_in(Draft *d, int i, ValueId v);    /* sets input i; new inputs before it are absent */
void draft_out(Draft *d, int o, ValueId v);   /* the same for output o; v's producer, if any, must be absorbed */
void draft_attr(Draft *d, const Attr *a);     /* lent until the draft is applied or begun again */
void draft_attrs(Draft *d, const Attr *list); /* the same for a list made by ATTRS */
void draft_absorb(Draft *d, Node *n);         /* n is removed when the draft is applied */
/* Makes a new value output o.  It is named like `of` plus the suffix, with the device, replica and type of `of` until
 * inference.  If the draft is never applied, the value stays dead. */
ValueId draft_new_out(Draft *d, int o, ValueId of, const char *suffix);

/* Does the target compute the drafted node?  Infers outputs of unknown shape. */
bool draft_is_supported(Draft *d);
/* Changes the graph's node into the draft, unchecked. */
void draft_apply(Draft *d);
/* Applies the draft if it is supported; returns whether it was. */
bool draft_try_apply(Draft *d);

#endif
