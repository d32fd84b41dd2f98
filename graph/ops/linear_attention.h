/* Attention without a softmax, as a state that each position changes and reads: the shapes of a DeltaRule, for its
 * kernels. */
#ifndef DPX_LINEAR_ATTENTION_H
#define DPX_LINEAR_ATTENTION_H

#include "graph/ir/op.h"

/* Inputs of DeltaRule, and the first of those of DeltaRuleGrad. */
enum { DELTA_Q, DELTA_K, DELTA_V, DELTA_PAST, DELTA_DECAY, DELTA_BETA, DELTA_INPUTS };
enum { DELTA_DY = DELTA_INPUTS, DELTA_DSTATE, DELTA_GRAD_INPUTS };

typedef struct {
    int64_t batch, steps, heads, group; /* heads with a state, of which each serves `group` queries */
    int64_t dk, dv;                     /* of a head */
    int64_t decays, betas; /* numbers of decay and beta at a position: 0, `heads`, heads * dk; 0, 1, `heads` */
    double scale;
    int n_in;
} DeltaRule;

void delta_rule_read(DeltaRule *out, const Graph *g, const Node *n); /* of a node that has been inferred */

#endif
