/* The vocabulary of an operator's gradient.  graph/ir/autodiff.c makes one Grad per node of the backward walk. */
#ifndef DPX_GRAD_H
#define DPX_GRAD_H

#include "graph/ir/emit.h"

struct Grad {
    Graph *g;
    const Node *node;
    const ValueId *dout; /* [n_out] gradient of the loss by each output; NO_VALUE where none flows */
    const bool *wanted;  /* [n_in] whether somebody needs the gradient by this input */
    ValueId *din;        /* [n_in] the answer; NO_VALUE: zero */
};

static inline Graph *grad_graph(Grad *gr) { return gr->g; }
static inline ValueId grad_in(Grad *gr, int i) { return i < gr->node->n_in ? gr->node->in[i] : NO_VALUE; }
static inline ValueId grad_out(Grad *gr, int i) { return i < gr->node->n_out ? gr->node->out[i] : NO_VALUE; }
static inline const Value *grad_in_value(Grad *gr, int i) { return value(gr->g, gr->node->in[i]); }
/* Of a one-output operator never NO_VALUE: its grad is not called when nothing flows. */
static inline ValueId grad_dout(Grad *gr, int i) { return i < gr->node->n_out ? gr->dout[i] : NO_VALUE; }
static inline bool grad_wanted(Grad *gr, int i) { return i < gr->node->n_in && gr->wanted[i]; }
/* Like grad_dout, zeros of the output's shape where nothing flows. */
ValueId grad_dout_or_zeros(Grad *gr, int i);
/* Like grad_dout, of 16 bits in float32: for what adds up, which grad_set_narrow rounds once. */
ValueId grad_dout_wide(Grad *gr, int i);
void grad_set(Grad *gr, int i, ValueId dx);
/* grad_set of dx in the type of input i. */
void grad_set_narrow(Grad *gr, int i, ValueId dx);
/* grad_set of dx summed down to input i's shape: what broadcasting needs.  Nothing when not wanted. */
void grad_set_unbroadcast(Grad *gr, int i, ValueId dx);

/* For operators without a gradient (integers, comparisons, ArgMax): the walk stops here. */
Status grad_none(Grad *gr) CHECKED;

#endif
