/* What the nodes of attention mean, packed or not: sizes, and where their elements stand. */
#ifndef DPX_OPS_ATTENTION_H
#define DPX_OPS_ATTENTION_H

#include "graph/ir/op.h"

/* Element [b, t, h, d] of a tensor stands at offset + b * batch + t * token + h * head + d. */
typedef struct {
    int64_t offset, batch, token, head;
} AttentionPart;

typedef struct {
    int64_t batch, heads, tq, tk, depth;
    double scale, fill, later;
    bool causal, replaced;    /* later keys are not seen; they are, and score `later` in place of their product */
    bool safe;                /* a row of probabilities that are none is zeros; its statistic is infinite */
    AttentionPart part[3], y; /* of Q, K, V in their tensors, and dQ, dK, dV in theirs; of Y */
    int64_t mask_step[4];     /* by batch, head, query, key */
} AttentionSizes;

/* A row's statistic up to here holds the logarithm of the sum beside the maximum; of one beyond (nothing but scores
 * masked by large numbers) the backward pass finds the probabilities as the forward pass does. */
#define ATTENTION_FINE 64

/* Of a node whose inputs are known and fit. */
void attention_sizes(AttentionSizes *out, const Graph *g, const Node *n);
bool attention_is_packed(const Node *n);
int attention_mask(const Node *n); /* which input the mask is, if there is one */

#endif
