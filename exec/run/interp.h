/* The interpreter: runs any graph at any stage, collectives included, node by node in one thread, with the reference
 * kernels.  It folds constants, runs what has no static shape, and is the oracle of the tests. */
#ifndef DPX_INTERP_H
#define DPX_INTERP_H

#include "graph/ir/graph.h"

/* One node whose inputs are all known; the shapes of its outputs must be known to `g`.  Makes out[0..n_out) in `arena`
 * (NULL for absent outputs).  in[i] is NULL for absent inputs.  An Evaluator of graph/ir/op.h. */
Status interp_node(Arena *arena, const Graph *g, Node *n, const Tensor *const *in, Tensor **out) CHECKED;

/* The same; an operator without a kernel is lowered first, in a graph of its own. */
Status interp_any(Arena *arena, const Graph *g, Node *n, const Tensor *const *in, Tensor **out) CHECKED;

/* One step of the whole graph.  `values` has g->n_value entries: the caller sets those of the inputs, and of the states
 * that shall not have their initial value; on return it holds every value that was computed, in `arena`.  States are
 * not written: the state after the step is values[update.next].  Shapes that were unknown are inferred on the way.
 * Nothing of a branch that is not taken (graph/ops/branch.c) is computed: its values stay NULL. */
Status interp_run(Arena *arena, const Graph *g, const Tensor **values) CHECKED;
/* The same; after every node `touch` may change the elements of what it computed. */
typedef Status (*InterpTouch)(void *ctx, const Node *n, const Tensor *const *in, Tensor *const *out);
Status interp_run_touched(Arena *arena, const Graph *g, const Tensor **values, InterpTouch touch, void *ctx) CHECKED;

#endif
