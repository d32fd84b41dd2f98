/* Helpers for losses over class numbers: scores [N, C, d...], targets [N, d...]. */
#ifndef DPX_OPS_LOSS_H
#define DPX_OPS_LOSS_H

#include "graph/ir/placement_rules.h"

#define NO_INDEX INT64_MIN /* ignore_index: nothing is ignored */

/* E_SHAPE unless `target` holds class numbers for scores of shape x. */
Status loss_check_target(const Graph *g, const Node *n, const Shape *x, const Value *target) CHECKED;
/* Converts an axis of the target to the axis of the scores, and back. */
static inline int loss_scores_axis(int a) { return a ? a + 1 : 0; }
static inline int loss_target_axis(int a) { return a ? a - 1 : 0; }
/* Splits scores (input 0) and target (1) along the same axis, everything else B; *axis is that of the scores, -1: not
 * split.  Scores split along the classes are gathered. */
void loss_align_target(Placement *p, int *axis);
/* OpDef.index_range: targets (input 1) are class numbers along axis 1 of the scores (input 0). */
int64_t loss_index_range(const Graph *g, const Node *n, int i);
/* The label smoothing of PyTorch's call, which ONNX's losses lack; 0: none. */
double loss_smoothing(const Node *n);

#endif
