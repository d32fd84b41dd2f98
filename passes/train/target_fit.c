/* Shapes that differ by axes of one element: the shorter one is walked beside the longer one. */
#include "passes/train/target_fit.h"

#include "graph/ops/view.gen.h"

/* Lists the axes of `more` that `fewer` lacks.  Taking an axis of one element where both have one is no restriction:
 * whichever of several is left out, the order of elements is the same. */
static bool list_extra(TargetFit *out, const Shape *more, const Shape *fewer, int batch)
{
    int k = 0;

    for (int i = 0; i < more->rank; i++) {
        if (k < fewer->rank && ((i == batch && k == batch) || more->dim[i] == fewer->dim[k]))
            k++;
        else if (i > batch && more->dim[i] == 1)
            out->axis[out->n++] = i;
        else
            return false;
    }
    return k == fewer->rank;
}

bool target_fit(TargetFit *out, const Shape *target, const Shape *wanted, int batch)
{
    const bool adds = target->rank <= wanted->rank;
    TargetFit fit = { .adds = adds };

    if (target->rank < 0 || wanted->rank < 0 ||
        !list_extra(&fit, adds ? wanted : target, adds ? target : wanted, batch))
        return false;
    *out = fit;
    return true;
}

bool target_is_like(const Shape *target, const Shape *wanted, int batch)
{
    TargetFit fit;

    return target_fit(&fit, target, wanted, batch) && !fit.n;
}

Shape target_fit_shape(const TargetFit *fit, const Shape *wanted)
{
    Shape s = { .rank = 0 };
    int next = 0, k = 0;

    if (fit->adds) {
        for (int i = 0; i < wanted->rank; i++)
            if (next < fit->n && fit->axis[next] == i)
                next++;
            else
                s.dim[s.rank++] = wanted->dim[i];
        return s;
    }
    for (s.rank = wanted->rank + fit->n; k < s.rank; k++)
        s.dim[k] = next < fit->n && fit->axis[next] == k ? (next++, 1) : wanted->dim[k - next];
    return s;
}

ValueId emit_fitted(Graph *g, ValueId target, const TargetFit *fit)
{
    ValueId axes;

    if (!fit->n)
        return target;
    axes = emit_ints(g, fit->n, fit->axis);
    return fit->adds ? EMIT(g, Unsqueeze, NULL, target, axes) : EMIT(g, Squeeze, NULL, target, axes);
}
