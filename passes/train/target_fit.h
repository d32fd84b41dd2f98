/* Targets whose shape differs from the scores' by axes of one element, such as [N] for scores [N,1]. */
#ifndef DPX_PASSES_TARGET_FIT_H
#define DPX_PASSES_TARGET_FIT_H

#include "graph/ir/emit.h"

typedef struct {
    bool adds;              /* axes are added to the target; false: removed */
    int n;                  /* 0: the shapes are equal */
    int64_t axis[MAX_RANK]; /* ascending: of the wanted shape where they are added, else of the target's */
} TargetFit;

/* Whether the target has the wanted shape once axes of one element are added to it, or removed from it.  The element
 * order is the same then.  Only axes behind the batch's count, and the length along the batch's axis does not. */
bool target_fit(TargetFit *out, const Shape *target, const Shape *wanted, int batch);
/* The same without axes to add or remove. */
bool target_is_like(const Shape *target, const Shape *wanted, int batch);
/* The shape of the target that `fit` turns into `wanted`. */
Shape target_fit_shape(const TargetFit *fit, const Shape *wanted);
/* Emits the target with the wanted shape. */
ValueId emit_fitted(Graph *g, ValueId target, const TargetFit *fit);

#endif
