/* Sizes and strides of attention nodes, packed or not, for inference and kernels. */
#ifndef DPX_OPS_ATTENTION_H
#define DPX_OPS_ATTENTION_H

#include "graph/ir/op.h"

/* Strides: element [b, t, h, d] of a tensor stands at offset + b * batch + t * token + h * head + d. */
typedef struct {
    int64_t offset, batch, token, head;
} AttentionPart;

typedef struct {
    int64_t batch, heads, tq, tk, depth;
    double scale, fill, later;
    bool causal, replaced;    /* causal: later keys are masked; replaced: they score `later` instead of their product */
    bool safe;                /* a fully masked row gives zeros, and an infinite statistic */
    AttentionPart part[3], y; /* strides of Q, K, V (and dQ, dK, dV) in their tensors; strides of Y */
    int mask;                 /* input that holds the mask; -1: none */
    int64_t mask_step[4];     /* strides of the mask by batch, head, query, key; 0 where it is broadcast */
} AttentionSizes;

/* A row's statistic of at most this magnitude holds the logarithm of the sum precisely enough beside the maximum.  For
 * a larger one (all scores masked by large numbers) the backward pass computes the softmax again. */
#define ATTENTION_FINE 64

/* Reads a node whose inputs are known and checked. */
void attention_sizes(AttentionSizes *out, const Graph *g, const Node *n);
bool attention_is_packed(const Node *n);
int attention_mask(const Node *n); /* index of the mask's input, which may be absent */

#endif
