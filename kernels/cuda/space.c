/* The iteration space of elementwise kernels goes through memory as the output lies there, by rows or channels last; an
 * operand's strides follow from its own layout, so that vectors of channels and other broadcasts go with either. */
#include "kernels/cuda/space.h"

#include "graph/tensor/layout.h"

/* Along an axis of an output of `rank`. */
static int64_t stride_along(const SpaceOperand *o, int axis, int rank)
{
    const Shape *s = o->value->shape;
    int own = o->channels ? axis - 1 : axis - (rank - s->rank);
    int64_t stride[MAX_RANK];

    layout_strides(o->value->layout, s, stride);
    return own < 0 || own >= s->rank || s->dim[own] == 1 ? 0 : stride[own];
}

int space_merge(const Value *out, int n, const SpaceOperand *operand, int64_t dim[MAX_RANK],
                int64_t (*stride)[MAX_RANK])
{
    int rank = 0, axes = out->shape->rank;

    for (int i = axes - 1; i >= 0; i--) {
        int axis = layout_axis(out->layout, axes, i);
        bool merge = rank > 0;

        if (out->shape->dim[axis] == 0)
            return -1;
        if (out->shape->dim[axis] == 1)
            continue;
        for (int k = 0; k < n; k++) {
            stride[k][rank] = stride_along(&operand[k], axis, axes);
            if (rank && stride[k][rank] != stride[k][rank - 1] * dim[rank - 1])
                merge = false;
        }
        dim[rank] = out->shape->dim[axis];
        if (merge)
            dim[rank - 1] *= dim[rank];
        else
            rank++;
    }
    return rank;
}

bool space_is_even(int rank, int n, int64_t (*stride)[MAX_RANK])
{
    for (int k = 0; rank > 0 && k < n; k++)
        if (stride[k][0] > 1)
            return false;
    return true;
}
