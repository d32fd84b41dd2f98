/* FlexAttention of ai.onnx.preview as the nodes that its formula consists of. */
#ifndef DPX_OPS_FLEX_ATTENTION_H
#define DPX_OPS_FLEX_ATTENTION_H

#include "graph/ir/op.h"

typedef struct {
    DType type, soft; /* of queries, keys and values; of scores and probabilities */
    bool shared;      /* queries may have more heads than keys and values */
    bool scaled;      /* by `scale`, else by 1 / sqrt(depth) */
    float scale;
} FlexAttention;

/* Nodes for an import, where shapes are not known yet. */
ValueId flex_scores(Graph *g, const FlexAttention *a, ValueId q, ValueId k);
ValueId flex_probabilities(Graph *g, ValueId scores);
/* `q`: whose heads those of the probabilities are. */
ValueId flex_values(Graph *g, const FlexAttention *a, ValueId probabilities, ValueId v, ValueId q);

#endif
