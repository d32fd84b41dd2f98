/* Answers of gradient functions: what nobody wants is dropped here, so a gradient need not ask unless the work is worth
 * it. */
#include "graph/grad.h"

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
    if (grad_wanted(gr, i) && !gr->g->status)
        grad_set(gr, i, emit_sum_to_shape(gr->g, dx, &grad_in_value(gr, i)->shape));
}

Status grad_none(Grad *gr) { return gr->g->status; }
