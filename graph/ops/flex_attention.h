/* FlexAttention of ai.onnx.preview: the nodes of its formula. */
#ifndef DPX_OPS_FLEX_ATTENTION_H
#define DPX_OPS_FLEX_ATTENTION_H

#include "graph/ir/op.h"

typedef struct {
    DType type, soft; /* type of queries, keys and values; type of scores and probabilities */
    bool shared;      /* queries may have more heads than keys and values */
    bool scaled;      /* scores are scaled by `scale`, else by 1 / sqrt(depth) */
    float scale;
} FlexAttention;

/* These emit nodes during import, when shapes are not known yet. */
ValueId flex_scores(Graph *g, const FlexAttention *a, ValueId q, ValueId k);
ValueId flex_probabilities(Graph *g, ValueId scores);
/* The probabilities have the heads of `q`. */
ValueId flex_values(Graph *g, const FlexAttention *a, ValueId probabilities, ValueId v, ValueId q);

#endif
