/* Interface between autodiff and an operator's gradient (OpDef.grad): one Grad for each node of the backward walk. */
#ifndef DPX_GRAD_H
#define DPX_GRAD_H

#include "graph/ir/emit.h"

struct Grad {
    Graph *g;
    const Node *node;
    const ValueId *dout; /* [n_out] gradient of the loss by each output; NO_VALUE: zero */
    const bool *wanted;  /* [n_in] is the gradient by this input needed? */
    ValueId *din;        /* [n_in] results; NO_VALUE: zero */
};

static inline Graph *grad_graph(Grad *gr) { return gr->g; }
static inline ValueId grad_in(Grad *gr, int i) { return i < gr->node->n_in ? gr->node->in[i] : NO_VALUE; }
static inline ValueId grad_out(Grad *gr, int i) { return i < gr->node->n_out ? gr->node->out[i] : NO_VALUE; }
static inline const Value *grad_in_value(Grad *gr, int i) { return value(gr->g, gr->node->in[i]); }
/* NO_VALUE when zero; never for an operator of one output, whose grad is then not called. */
static inline ValueId grad_dout(Grad *gr, int i) { return i < gr->node->n_out ? gr->dout[i] : NO_VALUE; }
static inline bool grad_wanted(Grad *gr, int i) { return i < gr->node->n_in && gr->wanted[i]; }
/* A number of the type of input 0. */
static inline ValueId grad_number(Grad *gr, double v) { return emit_scalar(gr->g, grad_in_value(gr, 0)->dtype, v); }
/* grad_dout, or zeros of the output's shape. */
ValueId grad_dout_or_zeros(Grad *gr, int i);
/* grad_dout, cast to float32 if it has 16 bits: for sums, which grad_set_narrow then rounds once. */
ValueId grad_dout_wide(Grad *gr, int i);
/* Sets the gradient by input i; no effect when it is not wanted. */
void grad_set(Grad *gr, int i, ValueId dx);
/* grad_set of dx cast to the type of input i. */
void grad_set_narrow(Grad *gr, int i, ValueId dx);
/* grad_set of dx summed down to the shape of input i, which the operator broadcasts. */
void grad_set_unbroadcast(Grad *gr, int i, ValueId dx);

/* For operators without a gradient (integers, comparisons, ArgMax): the walk stops here. */
Status grad_none(Grad *gr) CHECKED;

#endif
