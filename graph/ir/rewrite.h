/* Rewrites: many replacements of values at the cost of one walk.  While a rewrite is open, graph_replace records the
 * replacement, in constant time, and rewrite_end applies all of them.
 *
 *     TRY(rewrite_begin(g, ctx->scratch));
 *     FOR_NODES(g, n) {
 *         rewrite_read(g, n);                       applies the replacements so far to n's inputs
 *         ... graph_replace(g, n->out[0], y); ...
 *     }
 *     TRY(rewrite_end(g));
 *
 * Until then other nodes, outputs and updates still name the replaced values.  Without an open rewrite graph_replace
 * walks the graph at once.  In both cases a node that produces the replacement of one of its own inputs keeps reading
 * that input. */
#ifndef DPX_REWRITE_H
#define DPX_REWRITE_H

#include "graph/ir/graph.h"

/* Opens the only rewrite of g; its table lies in `a`, which must outlive it. */
Status rewrite_begin(Graph *g, Arena *a) CHECKED;
/* The present replacement of v; v itself if it was not replaced, or no rewrite is open. */
ValueId rewrite_in(const Graph *g, ValueId v);
/* Replaces the node's inputs by their present replacements. */
void rewrite_read(Graph *g, Node *n);
/* Does so for all nodes, outputs and updates, and closes the rewrite, also after a failure (g->status). */
Status rewrite_end(Graph *g) CHECKED;
/* Closes a rewrite that a failure left open, and discards what was recorded. */
void rewrite_drop(Graph *g);
/* graph_replace without the check of shapes: the caller makes or infers all readers for the shape of `by`. */
void graph_redirect(Graph *g, ValueId old, ValueId by);

/* Replaces all inputs of the node; the list is copied. */
void node_set_inputs(Graph *g, Node *n, int n_in, const ValueId *in);
/* Replaces all outputs of the node, whose producer it becomes.  The caller removes the former producers of `out`, or
 * gives them other outputs.  The node's former outputs lose their producer. */
void node_set_outputs(Graph *g, Node *n, int n_out, const ValueId *out);
/* Replaces output o; grows the list as needed. */
void node_set_output(Graph *g, Node *n, int o, ValueId v);

#endif
