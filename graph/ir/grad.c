/* Results of gradient functions.  grad_set drops gradients that nobody wants, so a gradient function needs no check
 * unless the computation is expensive. */
#include "graph/ir/grad.h"

ValueId grad_dout_or_zeros(Grad *gr, int i)
{
    ValueId dy = grad_dout(gr, i);

    return has_value(dy) ? dy : emit_zeros_like(gr->g, grad_out(gr, i));
}

ValueId grad_dout_wide(Grad *gr, int i)
{
    ValueId dy = grad_dout(gr, i);

    return !gr->g->status && dtype_size(value(gr->g, dy)->dtype) == 2 ? emit_cast(gr->g, dy, DT_FLOAT32) : dy;
}

void grad_set(Grad *gr, int i, ValueId dx)
{
    if (grad_wanted(gr, i))
        gr->din[i] = dx;
}

void grad_set_narrow(Grad *gr, int i, ValueId dx)
{
    if (grad_wanted(gr, i) && !gr->g->status)
        grad_set(gr, i, emit_cast(gr->g, dx, grad_in_value(gr, i)->dtype));
}

void grad_set_unbroadcast(Grad *gr, int i, ValueId dx)
{
    const Value *x, *y;
    int axis, at;

    if (!grad_wanted(gr, i) || gr->g->status)
        return;
    x = grad_in_value(gr, i);
    y = value(gr->g, grad_out(gr, 0));
    axis = y->batch_axis - 1;
    at = axis - (y->shape->rank - x->shape->rank);
    /* A batch of one sample: the shapes are equal, but larger batches broadcast input i, which has no batch. */
    if (axis >= 0 && at >= 0 && x->batch_axis == BATCH_NONE && y->shape->dim[axis] == 1 && x->shape->dim[at] == 1)
        dx = emit_reduce_sum(gr->g, dx, 1, (int64_t[]){ axis }, true);
    if (!gr->g->status)
        grad_set(gr, i, emit_sum_to_shape(gr->g, dx, x->shape));
}

Status grad_none(Grad *gr) { return gr->g->status; }
