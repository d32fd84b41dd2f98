/* Changing a graph in bulk: while a rewrite is open, graph_replace records that one value stands for another, which
 * costs nothing however many nodes read it, and one walk at the end puts it into effect.
 *
 *     TRY(rewrite_begin(g, ctx->scratch));
 *     FOR_NODES(g, n) {
 *         rewrite_read(g, n);                       now n reads what has been replaced so far
 *         ... graph_replace(g, n->out[0], y); ...
 *     }
 *     TRY(rewrite_end(g));
 *
 * Until then nodes that were not read again, outputs and updates still name what was replaced.  Without an open rewrite
 * graph_replace walks the graph at once.  Either way a node that makes what replaces one of its inputs goes on reading
 * that input. */
#ifndef DPX_REWRITE_H
#define DPX_REWRITE_H

#include "graph/ir/graph.h"

/* What is recorded lives in `a`, which must outlive the rewrite; one may be open at a time. */
Status rewrite_begin(Graph *g, Arena *a) CHECKED;
/* The value that stands for v now; v itself if it was not replaced, or no rewrite is open. */
ValueId rewrite_in(const Graph *g, ValueId v);
/* The node's inputs become what stands for them now. */
void rewrite_read(Graph *g, Node *n);
/* As rewrite_read for all nodes, outputs and updates; the rewrite is closed, also after a failure (g->status). */
Status rewrite_end(Graph *g) CHECKED;
/* Closes what a failure left open; what was recorded is lost. */
void rewrite_drop(Graph *g);
/* As graph_replace where the shapes are not alike: readers are made, or inferred, for that of `by`. */
void graph_redirect(Graph *g, ValueId old, ValueId by);

/* The node computes `op` of `in` from now on: a list in the graph's arena takes the place of its inputs. */
void node_set_inputs(Graph *g, Node *n, int n_in, const ValueId *in);
/* The node's outputs become those values, which were made by others or by none; their nodes must go or get others.
 * Those that it had are made by none, unless it has them still. */
void node_set_outputs(Graph *g, Node *n, int n_out, const ValueId *out);
/* As node_set_input, of one output. */
void node_set_output(Graph *g, Node *n, int o, ValueId v);

#endif
