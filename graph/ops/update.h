/* Inputs, outputs and formula of an Update node. */
#ifndef DPX_OPS_UPDATE_H
#define DPX_OPS_UPDATE_H

#include "graph/ir/body.h"
#include "graph/ir/grad.h"

/* Squares of gradients are added within pieces of so many elements of a tensor, then piece by piece.  A device with
 * whole pieces thus adds the same numbers in the same order as one with all of them. */
enum { NORM_PIECE = 4096 };

/* The number of parameters, and of the states of each, the parameter itself included. */
typedef struct {
    int count, states;
} UpdateForm;
UpdateForm update_form(const Node *n);
bool update_is(const Node *n); /* is it an Update? */

/* Index of the input with state k of parameter p (also of the output with its next value), the gradient of p, scalar s.
 */
static inline int update_state(const UpdateForm *f, int p, int k) { return p * f->states + k; }
static inline int update_grad(const UpdateForm *f, int p) { return f->count * f->states + p; }
static inline int update_scalar(const UpdateForm *f, int s) { return f->count * (f->states + 1) + s; }
static inline int update_scalars(const UpdateForm *f, const Node *n) { return n->n_in - update_scalar(f, 0); }

/* The formula with the types of parameter p: its inputs are the states, the gradient, the scalars; output k is the next
 * value of state k.  The caller frees it before g.  E_MODEL, E_SHAPE for an invalid formula. */
Status update_body(Graph **out, const Graph *g, const Node *n, int p) CHECKED;

#endif
