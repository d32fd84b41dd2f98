/* Shapes of a DeltaRule, for its kernels: attention without softmax, by a state that each position updates and reads.
 */
#ifndef DPX_LINEAR_ATTENTION_H
#define DPX_LINEAR_ATTENTION_H

#include "graph/ir/op.h"

/* Inputs of DeltaRule, which are also the first inputs of DeltaRuleGrad. */
enum { DELTA_Q, DELTA_K, DELTA_V, DELTA_PAST, DELTA_DECAY, DELTA_BETA, DELTA_INPUTS };
enum { DELTA_DY = DELTA_INPUTS, DELTA_DSTATE, DELTA_GRAD_INPUTS };

typedef struct {
    int64_t batch, steps, heads, group; /* heads have a state each, which serves `group` queries */
    int64_t dk, dv;                     /* depth of a head's keys and values */
    int64_t decays, betas; /* numbers at a position: decays 0, `heads` or heads * dk; betas 0, 1 or `heads` */
    double scale;
    int n_in;
} DeltaRule;

void delta_rule_read(DeltaRule *out, const Graph *g, const Node *n); /* n must have been inferred */

#endif
