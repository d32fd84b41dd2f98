/* Answers of gradient functions: what nobody wants is dropped here, so a gradient need not ask unless the work is worth
 * it. */
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

/* The axis of output 0 along which a batch of one sample broadcasts input i, which has none; -1: none. */
static int64_t broadcast_batch(Grad *gr, int i)
{
    const Value *x = grad_in_value(gr, i), *y = value(gr->g, grad_out(gr, 0));
    int axis = y->batch_axis - 1, at = axis - (y->shape->rank - x->shape->rank);

    return axis >= 0 && at >= 0 && x->batch_axis == BATCH_NONE && y->shape->dim[axis] == 1 && x->shape->dim[at] == 1
               ? axis
               : -1;
}

void grad_set_unbroadcast(Grad *gr, int i, ValueId dx)
{
    int64_t batch = grad_wanted(gr, i) && !gr->g->status ? broadcast_batch(gr, i) : -1;

    if (batch >= 0)
        dx = emit_reduce_sum(gr->g, dx, 1, &batch, true);
    if (grad_wanted(gr, i) && !gr->g->status)
        grad_set(gr, i, emit_sum_to_shape(gr->g, dx, grad_in_value(gr, i)->shape));
}

Status grad_none(Grad *gr) { return gr->g->status; }
