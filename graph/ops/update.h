/* What an Update node has where, and its formula. */
#ifndef DPX_OPS_UPDATE_H
#define DPX_OPS_UPDATE_H

#include "graph/ir/body.h"
#include "graph/ir/grad.h"

/* Squares of gradients are added by pieces of so many elements of a tensor, and then piece by piece: whoever has whole
 * pieces adds the same numbers in the same order. */
enum { NORM_PIECE = 4096 };

/* Parameters, and states of each with the parameter itself. */
typedef struct {
    int count, states;
} UpdateForm;
UpdateForm update_form(const Node *n);
bool update_is(const Node *n); /* is it an Update? */

/* Inputs: state k of parameter p, which is the output of its next value too; the gradient of p; scalar s. */
static inline int update_state(const UpdateForm *f, int p, int k) { return p * f->states + k; }
static inline int update_grad(const UpdateForm *f, int p) { return f->count * f->states + p; }
static inline int update_scalar(const UpdateForm *f, int s) { return f->count * (f->states + 1) + s; }
static inline int update_scalars(const UpdateForm *f, const Node *n) { return n->n_in - update_scalar(f, 0); }

/* The formula with the types of parameter p: its inputs are the states, the gradient, the scalars; output k is the next
 * value of state k.  The caller frees it, before g goes.  E_MODEL, E_SHAPE for a formula that is none. */
Status update_body(Graph **out, const Graph *g, const Node *n, int p) CHECKED;

#endif
