/* What losses over class numbers share: scores [N, C, d...] against targets [N, d...]. */
#ifndef DPX_OPS_LOSS_H
#define DPX_OPS_LOSS_H

#include "graph/ir/placement_rules.h"

#define NO_INDEX INT64_MIN /* ignore_index: nothing is ignored */

/* E_SHAPE unless `target` holds class numbers for scores of shape x. */
Status loss_check_target(const Graph *g, const Node *n, const Shape *x, const Value *target) CHECKED;
/* The scores' axis of a target's axis, and back. */
static inline int loss_scores_axis(int a) { return a ? a + 1 : 0; }
static inline int loss_target_axis(int a) { return a ? a - 1 : 0; }
/* Scores (input 0) and target (1) split alike, everything else B; `*axis` of the scores, -1: not split.  Scores split
 * along the classes are gathered. */
void loss_align_target(Placement *p, int *axis);
/* Targets (input 1) are class numbers along axis 1 of the scores (input 0). */
int64_t loss_index_range(const Graph *g, const Node *n, int i);
/* The label smoothing of PyTorch's call, of which ONNX's losses have no word; 0: none. */
double loss_smoothing(const Node *n);

#endif
